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

from corral.clock import SystemClock
from corral.core.model.jobs.job import Job, JobKind, JobSpec, ProcessIdentity
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport
from corral.host.runtimes import reserved_and_adopted
from corral.host.runtimes.reserved_and_adopted import WatchRuntime
from corral.host.telemetry.processes import HostProcesses

HOST = HostProcesses()
WITHIN_S = 40.0


@pytest.fixture
def events() -> Queue[str]:
    return Queue()


@pytest.fixture
def runtime(events: "Queue[str]") -> Iterator[WatchRuntime]:
    watching = WatchRuntime(HOST, SystemClock(), events.put, kill_grace_s=0.2)
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


def ended(runtime: WatchRuntime, events: "Queue[str]") -> LaunchReport:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if runtime.report("1.1").phase in (LaunchPhase.EXITED, LaunchPhase.DEAD):
            return runtime.report("1.1")
        with contextlib.suppress(Exception):
            events.get(timeout=0.05)
    raise AssertionError(f"the watch did not end within {WITHIN_S} s")


def test_a_reservation_lives_as_long_as_its_owner(runtime: WatchRuntime, events: "Queue[str]") -> None:
    with process() as owner:
        runtime.launch(launch(JobKind.RESERVE, identity(owner)))
        assert runtime.report("1.1").phase is LaunchPhase.RUNNING
    report = ended(runtime, events)
    assert (report.ending, report.reason) == (Phase.SUCCEEDED, "the session that held it ended")


def test_a_reservation_without_an_owner_ends_when_its_time_is_up(runtime: WatchRuntime, events: "Queue[str]") -> None:
    runtime.launch(launch(JobKind.RESERVE, None, time_limit_s=0.1))
    report = ended(runtime, events)
    assert (report.ending, report.reason) == (Phase.SUCCEEDED, "its time was up")


def test_an_owner_that_was_gone_before_the_watch_began_ends_it_at_once(
    runtime: WatchRuntime, events: "Queue[str]"
) -> None:
    with process() as owner:
        gone = identity(owner)
    runtime.launch(launch(JobKind.RESERVE, gone))
    assert ended(runtime, events).ending is Phase.SUCCEEDED


def test_cancelling_an_adopted_process_ends_it_even_when_it_ignores_sigterm(
    runtime: WatchRuntime, events: "Queue[str]"
) -> None:
    stubborn = (
        "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"up\n"
        runtime.launch(launch(JobKind.ADOPT, identity(child)))
        runtime.stop("1.1")
        assert child.wait(timeout=WITHIN_S) == -signal.SIGKILL
        assert ended(runtime, events).ending is Phase.CANCELLED
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.parametrize(("code", "ending"), [(0, Phase.SUCCEEDED), (3, Phase.FAILED)])
def test_an_adopted_process_that_ends_by_itself_ends_as_the_kernel_says_or_is_lost(
    runtime: WatchRuntime, events: "Queue[str]", code: int, ending: Phase
) -> None:
    with process(code) as child:
        runtime.launch(launch(JobKind.ADOPT, identity(child)))
        let_go(child)
        child.wait()
        report = ended(runtime, events)
    told = (report.phase, report.ending, report.exit_code)
    assert told == (LaunchPhase.EXITED, ending, code) or (told == (LaunchPhase.DEAD, None, None) and report.reason)


def test_an_adopted_process_that_nobody_reaps_is_lost_and_says_so(
    runtime: WatchRuntime, events: "Queue[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserved_and_adopted, "REAPED_WITHIN_S", 0.1)
    with process() as child:
        runtime.launch(launch(JobKind.ADOPT, identity(child)))
        let_go(child)
        report = ended(runtime, events)
    assert (report.phase, report.exit_code) == (LaunchPhase.DEAD, None)
    assert report.reason is not None
    assert "does not report" in report.reason


def test_an_adopted_process_runs_into_its_time_limit(runtime: WatchRuntime, events: "Queue[str]") -> None:
    with process() as child:
        runtime.launch(launch(JobKind.ADOPT, identity(child), time_limit_s=0.1))
        assert ended(runtime, events).ending is Phase.TIMED_OUT
        assert child.wait(timeout=WITHIN_S) == -signal.SIGTERM


def test_an_allocation_that_was_declared_lost_is_never_watched(runtime: WatchRuntime) -> None:
    assert runtime.declare_lost("1.1")
    runtime.launch(launch(JobKind.RESERVE, None))
    assert runtime.report("1.1").phase is LaunchPhase.DECLARED_LOST
    runtime.forget("1.1")
    assert runtime.launches() == ()


def test_what_descends_from_a_reservations_owner_is_known_by_it_where_the_owner_is_the_users_own(
    runtime: WatchRuntime,
) -> None:
    with process() as child:
        for launch_id, uid in (("1.1", os.getuid()), ("2.1", os.getuid() + 1), ("3.1", None)):
            asked = launch(JobKind.RESERVE, identity(child))
            spec = replace(asked.job.spec, uid=uid)
            runtime.launch(replace(asked, allocation_id=launch_id, job=replace(asked.job, spec=spec)))
        assert runtime.lineage("1.1").root == runtime.lineage("3.1").root == identity(child)
        assert runtime.lineage("2.1").root is None
        assert not runtime.lineage("1.1").adopts
        for launch_id in ("1.1", "2.1", "3.1"):
            runtime.stop(launch_id)
