"""What runs here although the ledger knows nothing of it is ended, and what needs devices waits for that."""

import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from corral.clock import SystemClock
from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport
from corral.host.node.launches.unknown_launches import UnknownLaunches
from corral.host.runtimes.simulated import SimulatedRuntime

EVENT_S = 60.0


class Stubborn(SimulatedRuntime):
    """Work that ends when the test says so, and says when it was asked to."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.asked: queue.Queue[str] = queue.Queue()
        self.unreadable = False

    def stop(self, launch_id: str) -> None:
        self.asked.put(launch_id)

    def report(self, launch_id: str) -> LaunchReport:
        if self.unreadable:
            raise BackendFailed("its record cannot be read")
        return super().report(launch_id)


@pytest.fixture
def runtime() -> Stubborn:
    return Stubborn()


@pytest.fixture
def unknown() -> Iterator[UnknownLaunches]:
    def at_once(step: Callable[[], None]) -> None:
        step()

    unknown = UnknownLaunches(at_once)
    yield unknown
    unknown.close()


def run(runtime: Stubborn, number: int) -> str:
    launch = Launch(f"{number}.1", Job(str(number), number, JobSpec("alice", ("true",)), 0.0), ())
    runtime.launch(launch)
    return launch.id


def test_what_runs_is_asked_to_end_and_others_wait_for_all_of_it(unknown: UnknownLaunches, runtime: Stubborn) -> None:
    first, second = run(runtime, 1), run(runtime, 2)
    assert unknown.end({first: runtime, second: runtime}) == (first, second)
    went_on = threading.Event()
    unknown.then(went_on.set)
    assert {runtime.asked.get(timeout=EVENT_S) for _ in range(2)} == {first, second}
    runtime.finish(first)
    assert not went_on.wait(0.3)
    runtime.finish(second)
    assert went_on.wait(EVENT_S)
    assert runtime.launches() == ()


def test_nothing_waits_where_nothing_runs(unknown: UnknownLaunches, runtime: Stubborn) -> None:
    over = run(runtime, 1)
    runtime.finish(over)
    assert unknown.end({over: runtime}) == ()
    went_on = threading.Event()
    unknown.then(went_on.set)
    assert went_on.is_set()
    assert runtime.launches() == ()


def test_what_nobody_has_claimed_never_runs(runtime: Stubborn) -> None:
    later: list[Callable[[], None]] = []
    unknown = UnknownLaunches(later.append)
    assert unknown.end({"1.1": runtime}) == ()
    assert runtime.report("1.1").phase is LaunchPhase.DECLARED_LOST
    run(runtime, 1)
    assert runtime.ran == []
    for step in later:
        step()
    assert runtime.launches() == ()


def test_what_cannot_be_looked_at_counts_as_running(unknown: UnknownLaunches, runtime: Stubborn) -> None:
    launch_id = run(runtime, 1)
    runtime.unreadable = True
    assert unknown.end({launch_id: runtime}) == (launch_id,)
    went_on = threading.Event()
    unknown.then(went_on.set)
    assert not went_on.wait(0.3)
    runtime.unreadable = False
    runtime.finish(launch_id)
    assert went_on.wait(EVENT_S)
