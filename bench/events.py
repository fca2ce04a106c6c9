"""Events for 200 clients at 10 a second, and what 20 clients cost the jobs of a server.

`python -m bench.events` prints each figure beside its goal. Half of the clients read Server-Sent Events, half a
WebSocket. The clients are one process, beside the server on the same machine.
"""

import base64
import http.client
import json
import os
import re
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.jobs import ENV, SLOTS
from bench.server import RunningServer, throw_away
from corral.client import Client
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission

CLIENTS = 200
EVENTS_A_SECOND = 10
MEASURED_S = 10
FEW_CLIENTS = 20
PAIRS = 5
JOBS = 300

_CORDON = re.compile(rb'"topic":"devices","what":"cordoned","id":(\d+)')

_HELLO = b'"topic":"hello"'
_LONGEST_HEAD = 60


class Readers:
    """Clients that read what they are sent, on one thread; `arrivals` has when each had which event."""

    def __init__(self, server: RunningServer, count: int) -> None:
        self.arrivals: list[tuple[int, float]] = []
        self.greeted = 0
        self._stop = threading.Event()
        self._selector = selectors.DefaultSelector()
        for number in range(count):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(server.socket))
            connection.sendall(_request(websocket=number % 2 == 1))
            self._selector.register(connection, selectors.EVENT_READ, bytearray())
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        while self.greeted < count:
            time.sleep(0.01)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]

    def _read(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(0.1):
                data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                now = time.time()
                assert data, "a client was disconnected"
                rest: bytearray = key.data
                rest += data
                self.greeted += rest.count(_HELLO)
                rest[:] = rest.replace(_HELLO, b"")
                end = 0
                for found in _CORDON.finditer(rest):
                    self.arrivals.append((int(found[1]), now))
                    end = found.end()
                # What may be the beginning of an event stays until its other piece comes.
                del rest[: max(end, len(rest) - _LONGEST_HEAD)]


def main() -> None:
    with throw_away() as server:
        ten_a_second(server)
    with throw_away(SLOTS) as server, Client(server.home) as client:
        cost_to_jobs(server, client)


def ten_a_second(server: RunningServer) -> None:
    """Devices are cordoned ten times a second; a client has an event so long after the request for it was sent."""
    with following(server, CLIENTS) as readers:
        begun: dict[int, float] = {}
        before_s = server.cpu_s()
        uuid = _ask(server, "GET", "/devices")["devices"][0]["uuid"]
        start = time.time()
        for number in range(EVENTS_A_SECOND * MEASURED_S):
            time.sleep(max(0.0, start + number / EVENTS_A_SECOND - time.time()))
            begun[number + 1] = time.time()
            _ask(server, "POST", f"/devices/{uuid}/cordon", {"reason": str(number)})
        time.sleep(0.5)
        took_s = time.time() - start
        busy_pct = 100 * (server.cpu_s() - before_s) / took_s
        arrivals = list(readers.arrivals)
    delays_ms = sorted(1e3 * (at - begun[place]) for place, at in arrivals)
    missed = CLIENTS * len(begun) - len(arrivals)
    p50_ms, p99_ms = (delays_ms[len(delays_ms) * percent // 100] for percent in (50, 99))
    print(f"{CLIENTS} event clients at {EVENTS_A_SECOND} events/s: {busy_pct:.0f} % of a core (goal 100 %), "
          f"{missed} of {CLIENTS * len(begun):,} events missed (goal 0), request to client p50 {p50_ms:.1f} ms, "
          f"p99 {p99_ms:.1f} ms")  # fmt: skip


def cost_to_jobs(server: RunningServer, client: Client) -> None:
    """Jobs to completion without clients and with some, in turn."""
    work = Submission(("/bin/true",), request=Request(devices=1), env=ENV, workdir="/")

    def measured() -> tuple[float, float]:
        """Jobs a second, and ms of the server's CPU for each."""
        began, busy_s = time.perf_counter(), server.cpu_s()
        client.wait(client.submit_many([work] * JOBS))
        return JOBS / (time.perf_counter() - began), 1e3 * (server.cpu_s() - busy_s) / JOBS

    measured()
    alone, beside = [], []
    for _ in range(PAIRS):
        alone.append(measured())
        with following(server, FEW_CLIENTS):
            beside.append(measured())
    ratios = [with_clients[0] / without[0] - 1 for without, with_clients in zip(alone, beside, strict=True)]
    (rate, cpu_ms), (slower, more_ms) = ([statistics.median(column) for column in zip(*rows, strict=True)]
                                         for rows in (alone, beside))  # fmt: skip
    print(f"{JOBS} trivial jobs: {rate:.0f} jobs/s and {cpu_ms:.2f} ms of the server's CPU each; "
          f"with {FEW_CLIENTS} event clients {slower:.0f} jobs/s and {more_ms:.2f} ms; "
          f"median of {PAIRS} pairs {statistics.median(ratios):+.1%} ({min(ratios):+.1%} to "
          f"{max(ratios):+.1%}; goal -5 %)")  # fmt: skip


@contextmanager
def following(server: RunningServer, count: int) -> Iterator[Readers]:
    readers = Readers(server, count)
    try:
        yield readers
    finally:
        readers.close()


def _request(*, websocket: bool) -> bytes:
    head = "GET /api/v1/events HTTP/1.1\r\nhost: x\r\n"
    if websocket:
        key = base64.b64encode(os.urandom(16)).decode()
        head += (
            f"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n"
        )
    return f"{head}\r\n".encode()


def _ask(server: RunningServer, method: str, path: str, body: object = None) -> dict[str, list[dict[str, str]]]:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(server.socket))
    connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body))
    answer: dict[str, list[dict[str, str]]] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


if __name__ == "__main__":
    main()
