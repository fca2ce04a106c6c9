"""A runtime of its own for each test, whose every process is gone when the test ends."""

import itertools
import os
import queue
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.runs.launch import LaunchPhase
from corral.host.runtimes.process import native_supervisor, procfs
from corral.host.runtimes.process.ending import killing
from corral.host.runtimes.process.process_launches import LaunchState, ProcessLaunches
from corral.host.runtimes.process.records.launch_spec import LaunchSpec

BUILD = Path(__file__).parents[4] / "deploy/build_supervisor.py"
OVER = (LaunchPhase.EXITED, LaunchPhase.DEAD, LaunchPhase.DECLARED_LOST)
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
EVENT_S = 40.0
"""What has not happened by then will not: far beyond any pause of a busy machine, and below the life of a job."""


def until(true: Callable[[], object], what: str, timeout_s: float = EVENT_S) -> None:
    """Wait until it is; fail saying what never was."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.005)


@contextmanager
def room_for(size_bytes: int) -> Iterator[None]:
    """No file of this process can grow larger: as on a disk that fills up, a write does a part of it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def no_descriptors() -> Iterator[None]:
    """This process can open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def alive(pid: int) -> bool:
    return _state(pid) not in ("", "Z", "X")


def stopped(pid: int) -> bool:
    return _state(pid) == "T"


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _state(pid: int) -> str:
    """As in proc(5), "" when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Machine:
    """A home with a process runtime that can be closed and started again, as servers are."""

    def __init__(self, home: Path, *, use_cgroup: bool = True, **more: Any) -> None:
        self.home = home
        self.events: queue.Queue[str] = queue.Queue()
        self._use_cgroup = use_cgroup
        self._more = more
        self._ids = itertools.count(1)
        self.runtime = self.start_backend()

    def start_backend(self, *, use_cgroup: bool | None = None) -> ProcessLaunches:
        self.runtime = ProcessLaunches(
            self.home,
            log_max_bytes=1 << 20,
            kill_grace_s=0.2,
            on_event=self.events.put,
            use_cgroup=self._use_cgroup if use_cgroup is None else use_cgroup,
            **self._more,
        )
        self.runtime.start()
        return self.runtime

    def spec(self, *argv: str, env: Mapping[str, str] = PATH, workdir: str = "/", **more: Any) -> LaunchSpec:
        name = more.pop("launch_id", None) or f"a{next(self._ids)}"
        return LaunchSpec(
            launch_id=name,
            job_id=name,
            argv=argv,
            env=env,
            workdir=workdir,
            log_path=more.pop("log_path", str(self.home / "logs" / f"{name}.log")),
            scratch_path=str(self.home / "scratch" / name),
            **more,
        )

    def launch(self, *argv: str, **more: Any) -> str:
        spec = self.spec(*argv, **more)
        self.runtime.launch(spec)
        return spec.launch_id

    def run(self, *argv: str, **more: Any) -> LaunchState:
        return self.wait(self.launch(*argv, **more))

    def wait(self, launch_id: str) -> LaunchState:
        """The state of a launch that is over."""
        until(lambda: self.runtime.status(launch_id).phase in OVER, f"the end of {launch_id}")
        return self.runtime.status(launch_id)

    def wait_for_log(self, launch_id: str, text: str) -> None:
        until(lambda: text.encode() in self.log(launch_id), f"{text!r} in the log of {launch_id}")

    def log(self, launch_id: str) -> bytes:
        path = self.home / "logs" / f"{launch_id}.log"
        return path.read_bytes() if path.exists() else b""

    def supervisor(self, launch_id: str) -> int:
        claim = self.runtime._verifier.records(launch_id).claim.read()
        assert claim is not None
        assert claim.holder is not None
        return claim.holder.pid

    def supervisor_of(self, launch_id: str) -> int:
        """The parent of the job's main process, whatever became of the record."""
        members = self.marked(launch_id)
        (supervisor,) = {_parent(pid) for pid in members} - set(members)
        return supervisor

    def marked(self, launch_id: str) -> list[int]:
        """The job's processes by their mark alone."""
        return procfs.marked(self.runtime._verifier.mark(launch_id).encode())

    def heard(self, launch_id: str, phase: LaunchPhase) -> None:
        """Wait for word that the launch is in this phase; nobody looks before there is word of it."""
        told = f"word that {launch_id} is {phase}"
        until(lambda: self.events.get(timeout=EVENT_S) == launch_id and self._is(launch_id, phase), told)

    def _is(self, launch_id: str, phase: LaunchPhase) -> bool:
        return self.runtime.status(launch_id).phase == phase

    def zygote(self) -> int:
        watcher = self.runtime._watcher
        # While it is being replaced there is none.
        with watcher._lock:
            assert watcher._zygote is not None
            return watcher._zygote.pid

    def kill_zygote(self) -> None:
        """Kill one that lives, not what is left of the one killed before."""
        until(lambda: alive(self.zygote()), "a living zygote")
        os.kill(self.zygote(), signal.SIGKILL)

    def shut(self) -> None:
        for name in self.runtime.list_launches():
            self.runtime.stop(name)
        for name in self.runtime.list_launches():
            if self.runtime.status(name).phase != LaunchPhase.UNKNOWN:
                self.wait(name)
            assert killing.orphans(self.runtime._verifier.processes_left(name)) == []
        # A supervisor has the log of errors open, and perhaps a cgroup, a little longer than its job has a record.
        until(lambda: not self.runtime._watcher._supervisors, "the end of every supervisor")
        base = self.runtime._cgroups.base
        until(lambda: base is None or not any(Path(base).glob("*/")), "the removal of every cgroup")
        self.runtime.close()
        assert base is None or not Path(base).exists()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.shut()


@pytest.fixture(scope="session")
def sanitized_supervisor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The supervisor, compiled such that it ends where it uses memory wrongly or does what C does not define."""
    program = tmp_path_factory.mktemp("sanitized") / "corral-supervisor"
    built = subprocess.run([sys.executable, BUILD, "--sanitize", program], capture_output=True, text=True, timeout=300)
    if not program.exists():
        pytest.skip(f"no C compiler here that has sanitizers: {built.stderr[-300:]}")
    return program


@pytest.fixture(params=["cgroup", "subreaper", "sanitized"])
def machine_of_each_kind(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    """With a cgroup for each job; with descent and mark alone; and so under a supervisor that watches itself."""
    if request.param == "sanitized":
        monkeypatch.setattr(native_supervisor, "PATH", str(request.getfixturevalue("sanitized_supervisor")))
    machine = Machine(tmp_path, use_cgroup=request.param == "cgroup")
    try:
        if request.param == "cgroup" and machine.runtime.means_of_killing != "cgroup":
            pytest.skip("no cgroup v2 hierarchy here that this process may write")
        yield machine
    finally:
        machine.shut()
        errors = (tmp_path / "supervisor.log").read_text(errors="replace")
        assert "Sanitizer" not in errors, errors
        assert "runtime error" not in errors, errors


def root_only() -> pytest.MarkDecorator:
    return pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user or mount a file system")
