import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from queue import Queue

import pytest

from corral.backends.watch import WatchBackend
from corral.clock import SystemClock
from corral.model.job import Job, JobKind, JobSpec, Phase, ProcessIdentity
from corral.ports import Launch, LaunchPhase, LaunchReport
from corral.telemetry.processes import HostProcesses

HOST = HostProcesses()


@pytest.fixture
def events() -> Queue[str]:
    return Queue()


@pytest.fixture
def backend(events: "Queue[str]") -> Iterator[WatchBackend]:
    watch = WatchBackend(HOST, SystemClock(), events.put, kill_grace_s=0.2)
    yield watch
    watch.close()


@contextlib.contextmanager
def process(code: str = "import time; time.sleep(60)") -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def launch(kind: JobKind, owner: ProcessIdentity | None, time_limit_s: float | None = None) -> Launch:
    spec = JobSpec("alice", kind=kind, owner=owner, time_limit_s=time_limit_s)
    return Launch("1.1", Job("1", 1, spec, 0.0), ())


def identity(child: "subprocess.Popen[bytes]") -> ProcessIdentity:
    found = HOST.identify(child.pid)
    assert found is not None
    return found


def ended(backend: WatchBackend, events: "Queue[str]") -> LaunchReport:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if backend.report("1.1").phase in (LaunchPhase.EXITED, LaunchPhase.DEAD):
            return backend.report("1.1")
        with contextlib.suppress(Exception):
            events.get(timeout=0.05)
    raise AssertionError("the watch did not end within 5 s")


def test_a_reservation_lives_as_long_as_its_owner(backend: WatchBackend, events: "Queue[str]") -> None:
    with process() as owner:
        backend.launch(launch(JobKind.RESERVE, identity(owner)))
        assert backend.report("1.1").phase is LaunchPhase.RUNNING
    report = ended(backend, events)
    assert (report.ending, report.reason) == (Phase.SUCCEEDED, "the session that held it ended")


def test_a_reservation_without_an_owner_ends_when_its_time_is_up(backend: WatchBackend, events: "Queue[str]") -> None:
    backend.launch(launch(JobKind.RESERVE, None, time_limit_s=0.1))
    report = ended(backend, events)
    assert (report.ending, report.reason) == (Phase.SUCCEEDED, "its time was up")


def test_an_owner_that_was_gone_before_the_watch_began_ends_it_at_once(
    backend: WatchBackend, events: "Queue[str]"
) -> None:
    with process("pass") as owner:
        gone = identity(owner)
        owner.wait()
    backend.launch(launch(JobKind.RESERVE, gone))
    assert ended(backend, events).ending is Phase.SUCCEEDED


def test_cancelling_an_adopted_process_ends_it_even_when_it_ignores_sigterm(
    backend: WatchBackend, events: "Queue[str]"
) -> None:
    stubborn = (
        "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"up\n"
        backend.launch(launch(JobKind.ADOPT, identity(child)))
        backend.stop("1.1")
        assert child.wait(timeout=20) == -signal.SIGKILL
        assert ended(backend, events).ending is Phase.CANCELLED
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.parametrize(("code", "ending"), [(0, Phase.SUCCEEDED), (3, Phase.FAILED)])
def test_an_adopted_process_that_ends_by_itself_ends_as_the_kernel_says_or_is_lost(
    backend: WatchBackend, events: "Queue[str]", code: int, ending: Phase
) -> None:
    with process(f"import sys, time; time.sleep(0.2); sys.exit({code})") as child:
        backend.launch(launch(JobKind.ADOPT, identity(child)))
        child.wait(timeout=20)
        report = ended(backend, events)
    told = (report.phase, report.ending, report.exit_code)
    assert told == (LaunchPhase.EXITED, ending, code) or (told == (LaunchPhase.DEAD, None, None) and report.reason)


def test_an_adopted_process_that_nobody_reaps_is_lost_and_says_so(backend: WatchBackend, events: "Queue[str]") -> None:
    with process("pass") as child:
        owner = identity(child)
        backend.launch(launch(JobKind.ADOPT, owner))
        report = ended(backend, events)
    assert (report.phase, report.exit_code) == (LaunchPhase.DEAD, None)
    assert report.reason is not None
    assert "does not tell" in report.reason


def test_an_adopted_process_runs_into_its_time_limit(backend: WatchBackend, events: "Queue[str]") -> None:
    with process() as child:
        backend.launch(launch(JobKind.ADOPT, identity(child), time_limit_s=0.1))
        assert ended(backend, events).ending is Phase.TIMED_OUT
        assert child.wait(timeout=20) == -signal.SIGTERM


def test_an_allocation_that_was_declared_lost_is_never_watched(backend: WatchBackend) -> None:
    assert backend.declare_lost("1.1")
    backend.launch(launch(JobKind.RESERVE, None))
    assert backend.report("1.1").phase is LaunchPhase.DECLARED_LOST
    backend.forget("1.1")
    assert backend.launches() == ()
