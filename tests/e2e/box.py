"""A machine to try things on: a home of its own, the installed `corral` command, and described devices."""

import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from corral.client import Client, NoServer
from corral.core.model.errors import Conflict
from corral.wire import to_plain
from tests.loaded import loaded

CORRAL = str(Path(sys.executable).with_name("corral"))
PATIENCE_S = 60.0
"""What has not come about after so long hangs: no machine is that slow."""
COMMAND_S = 100.0
SETTINGS = "kill_grace: 10s\n"

Finished = subprocess.CompletedProcess[str]


_HEAD = """slot_name = "cuda"
device_plugin_name = "CUDADevice"

[attributes]
nvidia_driver = "550.54.15"
cuda_runtime = "12.4"
"""


def described(count: int, *, extra: str = "") -> str:
    """A mock-accelerator.toml of `count` devices; `extra` lines are added to each."""
    device = """
[[devices]]
mother_uuid = "GPU-{index:08d}-0000-4000-8000-000000000000"
model_name = "Mock A100"
numa_node = 0
subproc_count = 108
memory_size = "80G"
is_mig_device = false
compute_capability = "8.0"
load = "follow-jobs"
{extra}
"""
    return _HEAD + "".join(device.format(index=index, extra=extra) for index in range(count))


def uuid(index: int) -> str:
    """The UUID of a described device."""
    return f"GPU-{index:08d}-0000-4000-8000-000000000000"


def until_there(gate: Path) -> str:
    """Shell that goes on once the file is there: a job lasts until its test has seen what it came to see."""
    return f"until [ -e {gate} ]; do sleep 0.05; done"


def line_of(stream: IO[str] | None, text: str = "") -> str:
    """The next line with `text` in it. On a busy machine a command may have had to say why it waits before."""
    assert stream is not None
    others = []
    for line in stream:
        if text in line:
            return line
        others.append(line)
    raise AssertionError(f"{text!r} was never said, but {''.join(others)!r}")


class Command(subprocess.Popen[str]):
    """A command on its way. A test that fails ends it, rather than wait for it."""

    def __exit__(self, kind: type[BaseException] | None, error: Any, traceback: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, traceback)


class Box:
    """A home with its server, and the `corral` command on it."""

    def __init__(self, devices: str, settings: str = SETTINGS) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="box-"))  # a socket's path must be short
        self.mock = self.home / "mock.toml"
        self.mock.write_text(devices)
        (self.home / "config.yaml").write_text(settings)
        foreign = {name: value for name, value in os.environ.items() if not name.startswith("CORRAL_")}
        self.env = {**foreign, "CORRAL_HOME": str(self.home), "COLUMNS": "2000"}

    def describe(self, devices: str) -> None:
        """Change the described devices, in one step: a server that looks meanwhile finds no half of a file."""
        draft = self.mock.with_suffix(".draft")
        draft.write_text(devices)
        draft.rename(self.mock)

    def up(self) -> None:
        """Start its server: on described devices, else on those of the driver that its environment leads to.

        It begins with its modules loaded where it can. `up_by_command` is for what `corral up` itself does.
        """
        if not self.mock.read_text() or not loaded().can_begin(self.env):
            self.up_by_command()
            return
        log = self.home / "server.log"
        said = loaded().begin(self.env, log, ["--home", str(self.home), "--mock", str(self.mock)])
        assert said.splitlines()[-1:] == ["ready"], f"the server did not start: {said} {log.read_text()}"

    def up_by_command(self) -> None:
        self.ok(*self._up())

    def _up(self) -> tuple[str, ...]:
        return ("up", "--detach", "--mock", str(self.mock)) if self.mock.read_text() else ("up", "--detach")

    def down(self) -> None:
        self.ok("down")

    def kill(self) -> None:
        """Kill its server, and wait until it is gone: a process that is about to end still holds the home's lock."""
        server = os.pidfd_open(int((self.home / "corral.pid").read_text()))
        try:
            signal.pidfd_send_signal(server, signal.SIGKILL)
            ended, _, _ = select.select([server], [], [], PATIENCE_S)
            assert ended, "the killed server did not end"
        finally:
            os.close(server)

    def discard(self) -> None:
        """End the jobs and the server, and remove the home. A test may have stopped the server before its jobs."""
        try:
            self.clear()
            self.down()
        except NoServer:
            if self._left_behind():
                self.run(*self._up())
                self.clear()
                self.down()
        shutil.rmtree(self.home, ignore_errors=True)

    def _left_behind(self) -> bool:
        """Whether processes of jobs or of nodes may run on, which only a server ends."""
        launches = self.home / "launches"
        return "[[nodes]]" in self.mock.read_text() or (launches.exists() and any(launches.iterdir()))

    def clear(self) -> None:
        """End every job, and wait until all have; uncordon the GPUs."""
        with Client(self.home) as client:
            for device in client.devices.list():
                if device.state == "cordoned":
                    client.devices.uncordon(device.uuid)
            ids = [row.id for row in client.jobs.list(limit=None)]
            for job_id in ids:
                with suppress(Conflict):
                    client.jobs.cancel(job_id)
            client.wait(ids, PATIENCE_S)

    def run(self, *words: str, cwd: Path | None = None, **environ: str) -> Finished:
        """The command, to its end."""
        env = {**self.env, **environ}
        return subprocess.run(
            [CORRAL, *words], capture_output=True, text=True, env=env, cwd=cwd, timeout=COMMAND_S, errors="replace"
        )

    def ok(self, *words: str, **environ: str) -> str:
        """What a command prints that must succeed."""
        done = self.run(*words, cwd=None, **environ)
        assert done.returncode == 0, f"{words}: {done.returncode}: {done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.ok(*words))

    def api(self, path: str, body: Any = None) -> Any:
        """What the server answers to a GET of `path`, or to a POST of `body`."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.home / "corral.sock"))
            connection = http.client.HTTPConnection("localhost")
            connection.sock = line
            connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
            return json.loads(connection.getresponse().read())

    def submit(self, *words: str) -> str:
        """The id of a submission."""
        job_id: str = self.json("submit", "--json", *words)["id"]
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        """The job's row."""
        with Client(self.home) as client:
            row: dict[str, Any] = to_plain(client.jobs.get(job_id))
        return row

    def ended(self, job_id: str, within_s: float = PATIENCE_S) -> dict[str, Any]:
        """The job's row after its end."""
        with Client(self.home) as client:
            try:
                client.wait(job_id, within_s)
            except TimeoutError:
                told = (self.run(*words) for words in (("why", job_id), ("nodes",), ("hosts",)))
                raise AssertionError("\n".join(f"{one.stdout}{one.stderr}" for one in told)) from None
        return self.job(job_id)

    def start(self, *words: str, **given: Any) -> Command:
        """The command, on its way."""
        return Command(
            [CORRAL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env, **given
        )

    def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until `holds()` does; what it said."""
        deadline = time.monotonic() + PATIENCE_S
        while not (answer := holds()):
            assert time.monotonic() < deadline, "it did not come about"
            time.sleep(0.05)
        return answer

    def until_phase(self, job_id: str, phase: str) -> None:
        self.until(lambda: self.job(job_id)["phase"] == phase)


@contextmanager
def serving(devices: str, settings: str = SETTINGS) -> Iterator[Box]:
    """A box whose server is up with these settings. In the end its jobs are ended, and it is gone."""
    box = Box(devices, settings)
    try:
        box.up()
        yield box
    finally:
        box.discard()
