"""How long one user's job takes from its submission to its first instruction while another user floods the server.

`python -m bench.fairness` prints the figures of each flood beside the goal, `python -m bench.fairness singles listing`
those of some. It needs root: the server is root's, and floods come from one user of the host while another submits one
job after the other. The innocent user's GPUs are always free (the other one may have 40 of 64), so that what it waits
for is the server's own doing, and the cores that all share. Each flood is bounded in time, and in what waits.
"""

import json
import os
import pwd
import select
import signal
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.server import RunningServer, throw_away

DEVICES = 64
DEVICES_OF_A_USER = 40
FLOOD_S = 12.0
WARM_UP_S = 2.0
PAUSE_S = 0.05
LONGEST_WAIT_S = 30.0
GOAL_MS = 500
ARRAY = 10_000
FLOODER, INNOCENT = "daemon", "nobody"
WORK: dict[str, Any] = {
    "workdir": "/",
    "env": {"PATH": "/usr/bin:/bin"} | {f"VARIABLE_{i}": "value" for i in range(20)},
}
LONG_JOB = ["/bin/sleep", str(3 * FLOOD_S)]
"""It outlives the flood, and not for long the server, which leaves its jobs running."""
SETTINGS = f"policies:\n  max_gpus_per_user: {DEVICES_OF_A_USER}\nmax_queue_size: 200000\nmax_running_jobs: 5000\n"


class Connection:
    """One keep-alive connection of HTTP to a server's Unix socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rb", buffering=1 << 20)

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and body of the answer."""
        raw = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        head = f"{method} /api/v1{path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(raw)}\r\n\r\n"
        self._socket.sendall(head.encode() + raw)
        status = int(self._file.readline().split()[1])
        length, chunked = 0, False
        while (line := self._file.readline().strip().lower()) != b"":
            name, _, value = line.partition(b":")
            length = int(value) if name == b"content-length" else length
            chunked = chunked or (name == b"transfer-encoding" and b"chunked" in value)
        if not chunked:
            return status, self._file.read(length)
        parts = []
        while (size := int(self._file.readline(), 16)) > 0:
            parts.append(self._file.read(size))
            self._file.readline()
        self._file.readline()
        return status, b"".join(parts)

    def follow(self, path: str) -> Iterator[bytes]:
        """What a stream says, line by line."""
        self._socket.sendall(f"GET /api/v1{path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        yield from self._file


def submit(connection: Connection, **asked: Any) -> str | None:
    """Submit, and the id of the job; None where it was refused."""
    status, answer = connection.ask("POST", "/jobs", WORK | asked)
    return json.loads(answer)["id"] if status == 201 else None


def one_gpu() -> dict[str, Any]:
    return {"request": {"devices": 1}}


def nothing(path: Path) -> None:
    """No flood."""
    time.sleep(FLOOD_S)


def singles(path: Path) -> None:
    """8 connections submit single jobs: the first ones start and end at once, and most wait for them."""
    in_threads(8, lambda: again_and_again(path, lambda one: submit(one, command=["/bin/sleep", "0.2"], **one_gpu())))


def waiting(path: Path) -> None:
    """8 connections submit single jobs, all of which wait for long ones."""
    first = Connection(path)
    for _ in range(DEVICES_OF_A_USER):
        submit(first, command=LONG_JOB, **one_gpu())
    in_threads(8, lambda: again_and_again(path, lambda one: submit(one, command=["/bin/true"], **one_gpu())))


def arrays(path: Path) -> None:
    """4 connections submit arrays of 10,000 that wait, and cancel each."""
    first = Connection(path)
    for _ in range(DEVICES_OF_A_USER):
        submit(first, command=LONG_JOB, **one_gpu())
    array = {"indices": [*range(ARRAY)]}

    def submit_and_cancel(one: Connection) -> None:
        job_id = submit(one, command=["/bin/true"], array=array, **one_gpu())
        if job_id is not None:
            one.ask("POST", "/jobs/cancel", {"ids": [job_id]})

    in_threads(4, lambda: again_and_again(path, submit_and_cancel))


def starting(path: Path) -> None:
    """8 connections submit single jobs without GPUs, which all may start at once: up to 5,000 wait to be launched."""
    in_threads(8, lambda: again_and_again(path, lambda one: submit(one, command=["/bin/true"], request={"devices": 0})))


def ends(path: Path) -> None:
    """5,000 short jobs wait, so that 40 at a time are launched and end without a pause."""
    one = Connection(path)
    jobs = [WORK | {"command": ["/bin/true"], **one_gpu()}] * 1_000
    for _ in range(5):
        one.ask("POST", "/jobs/batch", {"jobs": jobs})
    time.sleep(FLOOD_S)


def listing(path: Path) -> None:
    """24 connections list 5,000 waiting jobs, page by page or all, and ask why, and 8 follow all events."""
    one = Connection(path)
    for _ in range(DEVICES_OF_A_USER):
        submit(one, command=LONG_JOB, **one_gpu())
    job_id = submit(one, command=["/bin/true"], array={"indices": [*range(5_000)]}, **one_gpu())
    asked = ["/jobs?limit=1000", "/jobs?limit=0&starts=true", f"/jobs/{job_id}_4999/why", "/jobs?limit=100"]

    def follow() -> None:
        until = time.monotonic() + FLOOD_S
        for _ in Connection(path).follow("/events"):
            if time.monotonic() > until:
                return

    followers = [threading.Thread(target=follow, daemon=True) for _ in range(8)]
    for follower in followers:
        follower.start()
    numbers = iter(range(24))

    def list_again() -> None:
        what = asked[next(numbers) % len(asked)]
        again_and_again(path, lambda one: one.ask("GET", what))

    in_threads(24, list_again)


FLOODS = (nothing, singles, starting, waiting, arrays, ends, listing)


def in_threads(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def again_and_again(path: Path, ask: Callable[[Connection], object]) -> None:
    connection, until, asked = Connection(path), time.monotonic() + FLOOD_S, 0
    while time.monotonic() < until:
        ask(connection)
        asked += 1


@contextmanager
def as_user(name: str, work: Callable[[], None]) -> Iterator[int]:
    """A process of that user which does this; it is killed in the end."""
    account = pwd.getpwnam(name)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            work()
            status = 0
        finally:
            os._exit(status)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def innocent(path: Path, fifo: Path, out: int) -> None:
    """Submit one job after the other; tell how long each took to its first instruction, and how long its submission."""
    heard = os.open(fifo, os.O_RDWR)
    connection, until = Connection(path), time.monotonic() + FLOOD_S - WARM_UP_S
    while time.monotonic() < until:
        began = time.perf_counter()
        submit(connection, command=["/bin/sh", "-c", f"echo > {fifo}"], **one_gpu())
        submitted = time.perf_counter()
        if select.select([heard], [], [], LONGEST_WAIT_S)[0]:
            os.read(heard, 100)
        started = time.perf_counter()
        os.write(out, f"{1e3 * (submitted - began)} {1e3 * (started - began)}\n".encode())
        time.sleep(PAUSE_S)


def prepare(home: Path) -> None:
    home.chmod(0o755)
    (home / "config.yaml").write_text(SETTINGS)


def measure(flood: Callable[[Path], None]) -> None:
    with throw_away(DEVICES, prepare) as server:
        fifo = server.home / "first-instruction"
        os.mkfifo(fifo)
        os.chown(fifo, pwd.getpwnam(INNOCENT).pw_uid, -1)
        submits_ms, starts_ms, cpu_s = figures(server, flood, fifo)
    if not starts_ms:
        print(f"{flood.__name__}: no job of the innocent user started")
        return
    print(
        f"{flood.__name__:8} {len(starts_ms):4} jobs of another user, submit to first instruction: "
        f"p50 {at(starts_ms, 50):.0f} ms, p99 {at(starts_ms, 99):.0f} ms, longest {max(starts_ms):.0f} ms "
        f"(goal p99 {GOAL_MS} ms); "
        f"submit p50 {at(submits_ms, 50):.0f}, p99 {at(submits_ms, 99):.0f} ms; "
        f"server {cpu_s / FLOOD_S:.1f} cores, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def figures(server: RunningServer, flood: Callable[[Path], None], fifo: Path) -> tuple[list[float], list[float], float]:
    reading, writing = os.pipe()
    began_cpu_s = server.cpu_s()
    with as_user(FLOODER, lambda: flood(server.socket)) as flooding:
        time.sleep(WARM_UP_S)
        with as_user(INNOCENT, lambda: innocent(server.socket, fifo, writing)):
            os.close(writing)
            with os.fdopen(reading) as told:
                pairs = [tuple(map(float, line.split())) for line in told]
        os.waitid(os.P_PID, flooding, os.WEXITED | os.WNOWAIT)
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs], server.cpu_s() - began_cpu_s


def at(times: list[float], percent: int) -> float:
    return sorted(times)[len(times) * percent // 100] if len(times) > 1 else statistics.median(times)


def main(names: list[str] | None = None) -> None:
    if os.geteuid() != 0:
        print("fairness: only root may act as two other users")
        return
    for flood in FLOODS:
        if not names or flood.__name__ in names:
            measure(flood)


if __name__ == "__main__":
    main(sys.argv[1:])
