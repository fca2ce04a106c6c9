import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from queue import Queue

import pytest

from corral.backends import watch
from corral.backends.watch import WatchBackend
from corral.clock import SystemClock
from corral.model.job import Job, JobKind, JobSpec, Phase, ProcessIdentity
from corral.ports import Launch, LaunchPhase, LaunchReport
from corral.telemetry.processes import HostProcesses

HOST = HostProcesses()
WITHIN_S = 40.0


@pytest.fixture
def events() -> Queue[str]:
    return Queue()


@pytest.fixture
def backend(events: "Queue[str]") -> Iterator[WatchBackend]:
    watching = WatchBackend(HOST, SystemClock(), events.put, kill_grace_s=0.2)
    yield watching
    watching.close()


@contextlib.contextmanager
def process(exit_code: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """One that goes on until its input ends, and then exits so."""
    child = subprocess.Popen(["/bin/sh", "-c", f"read line; exit {exit_code}"], stdin=subprocess.PIPE)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        let_go(child)


def let_go(child: "subprocess.Popen[bytes]") -> None:
    assert child.stdin is not None
    child.stdin.close()


def launch(kind: JobKind, owner: ProcessIdentity | None, time_limit_s: float | None = None) -> Launch:
    spec = JobSpec("alice", kind=kind, owner=owner, time_limit_s=time_limit_s)
    return Launch("1.1", Job("1", 1, spec, 0.0), ())


def identity(child: "subprocess.Popen[bytes]") -> ProcessIdentity:
    found = HOST.identify(child.pid)
    assert found is not None
    return found


def ended(backend: WatchBackend, events: "Queue[str]") -> LaunchReport:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if backend.report("1.1").phase in (LaunchPhase.EXITED, LaunchPhase.DEAD):
            return backend.report("1.1")
        with contextlib.suppress(Exception):
            events.get(timeout=0.05)
    raise AssertionError(f"the watch did not end within {WITHIN_S} s")


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
    with process() as owner:
        gone = identity(owner)
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
        assert child.wait(timeout=WITHIN_S) == -signal.SIGKILL
        assert ended(backend, events).ending is Phase.CANCELLED
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.parametrize(("code", "ending"), [(0, Phase.SUCCEEDED), (3, Phase.FAILED)])
def test_an_adopted_process_that_ends_by_itself_ends_as_the_kernel_says_or_is_lost(
    backend: WatchBackend, events: "Queue[str]", code: int, ending: Phase
) -> None:
    with process(code) as child:
        backend.launch(launch(JobKind.ADOPT, identity(child)))
        let_go(child)
        child.wait()
        report = ended(backend, events)
    told = (report.phase, report.ending, report.exit_code)
    assert told == (LaunchPhase.EXITED, ending, code) or (told == (LaunchPhase.DEAD, None, None) and report.reason)


def test_an_adopted_process_that_nobody_reaps_is_lost_and_says_so(
    backend: WatchBackend, events: "Queue[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "REAPED_WITHIN_S", 0.1)
    with process() as child:
        backend.launch(launch(JobKind.ADOPT, identity(child)))
        let_go(child)
        report = ended(backend, events)
    assert (report.phase, report.exit_code) == (LaunchPhase.DEAD, None)
    assert report.reason is not None
    assert "does not tell" in report.reason


def test_an_adopted_process_runs_into_its_time_limit(backend: WatchBackend, events: "Queue[str]") -> None:
    with process() as child:
        backend.launch(launch(JobKind.ADOPT, identity(child), time_limit_s=0.1))
        assert ended(backend, events).ending is Phase.TIMED_OUT
        assert child.wait(timeout=WITHIN_S) == -signal.SIGTERM


def test_an_allocation_that_was_declared_lost_is_never_watched(backend: WatchBackend) -> None:
    assert backend.declare_lost("1.1")
    backend.launch(launch(JobKind.RESERVE, None))
    assert backend.report("1.1").phase is LaunchPhase.DECLARED_LOST
    backend.forget("1.1")
    assert backend.launches() == ()


def test_what_descends_from_a_reservations_owner_is_known_by_it_where_the_owner_is_the_users_own(
    backend: WatchBackend,
) -> None:
    with process() as child:
        for allocation_id, uid in (("1.1", os.getuid()), ("2.1", os.getuid() + 1), ("3.1", None)):
            asked = launch(JobKind.RESERVE, identity(child))
            spec = replace(asked.job.spec, uid=uid)
            backend.launch(replace(asked, allocation_id=allocation_id, job=replace(asked.job, spec=spec)))
        assert backend.lineage("1.1").root == backend.lineage("3.1").root == identity(child)
        assert backend.lineage("2.1").root is None
        assert not backend.lineage("1.1").adopts
        for allocation_id in ("1.1", "2.1", "3.1"):
            backend.stop(allocation_id)
