"""A launch that the disk has no room for is told, costs no job its end, and is made again."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import Queue

import pytest

from corral.clock import ManualClock, SystemClock
from corral.core.access.caller import Caller
from corral.core.control.launching.attempts import Attempt
from corral.core.control.launching.dispatcher import Checkpoints
from corral.core.control.nodes.node_workers import NodeWorker, Task
from corral.core.model.errors import BackendFailed
from corral.core.model.fact import ConditionObserved, NodeObserved, Observation
from corral.core.model.home import Home
from corral.core.model.jobs.job import Job, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import Submission
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport
from corral.fair_queue import SERVER
from corral.host.node.mock.simulated_node import SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.sim.faults.live_server import LiveServer
from tests.core.control.strategies import box, job

ALICE = Caller("alice", 1000, 1000, (1000,), admin=True)
BOX = box(1)
PATIENCE_S = 60.0


class FullDisk(SimulatedRuntime):
    """Writes down neither a launch nor a claim while it is full."""

    full = True
    unclaimed: str | None = None

    def launch(self, launch: Launch) -> None:
        if self.full and self.unclaimed is None:
            raise BackendFailed("no space left for the launch")
        if not self.full:
            super().launch(launch)

    def declare_lost(self, allocation_id: str, *, ran: bool = False) -> bool:
        if self.full:
            raise BackendFailed("no space left for the claim")
        return super().declare_lost(allocation_id, ran=ran)

    def report(self, allocation_id: str) -> LaunchReport:
        found = super().report(allocation_id)
        if found.phase is not LaunchPhase.UNKNOWN or self.unclaimed is None:
            return found
        phase = LaunchPhase.UNKNOWN if self.full else LaunchPhase.DECLARED_LOST
        return LaunchReport(allocation_id, phase, reason=self.unclaimed)


@pytest.fixture
def disk() -> FullDisk:
    return FullDisk(SystemClock())


@pytest.fixture
def server(disk: FullDisk, tmp_path: Path) -> Iterator[LiveServer]:
    observed: list[Observation] = [NodeObserved(BOX.nodes["box"]), *map(ConditionObserved, BOX.conditions.values())]
    server = LiveServer(Home(tmp_path), {"box": SimulatedNode(disk, SystemClock())}, observed)
    yield server
    server.close()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


def when(server: LiveServer, job_id: str, true: Callable[[Job], bool]) -> Job:
    """The job as it was when that was true of it."""
    seen: list[Job] = []

    def look() -> bool:
        seen[:] = [server.ledger.view().jobs[job_id]]
        return true(seen[0])

    until(look)
    return seen[0]


def submitted(server: LiveServer) -> str:
    (job_id,) = server.service.submit([Submission(("true",), request=Request(devices=1), workdir="/")], ALICE)
    return job_id


def test_a_launch_that_could_not_be_written_down_fails_although_nobody_can_claim_it(
    server: LiveServer, disk: FullDisk
) -> None:
    job_id = submitted(server)
    # It is tried again in a moment, and waits in between.
    job = when(server, job_id, lambda job: job.phase is Phase.PENDING and job.launch_failures > 0)
    assert (job.reason, job.attempts) == ("no space left for the launch", 0)
    disk.full = False
    until(lambda: server.ledger.view().jobs[job_id].phase is Phase.RUNNING)
    assert disk.ran == [job_id]


def test_a_launch_that_nobody_claimed_and_that_cannot_be_given_up_yet_is_not_taken_for_lost(
    server: LiveServer, disk: FullDisk
) -> None:
    disk.unclaimed = "its supervisor ended, and that cannot be recorded: no space left"
    job_id = submitted(server)
    until(lambda: server.ledger.view().jobs[job_id].phase is Phase.STARTING)
    disk.on_event(f"{job_id}.1")
    until(lambda: "cannot be recorded: no space left" in server.service.explanations.of(job_id).reason)
    assert server.ledger.view().jobs[job_id].phase is Phase.STARTING
    disk.full = False
    disk.on_event(f"{job_id}.1")
    when(server, job_id, lambda job: job.launches > 1)
    disk.unclaimed = None
    until(lambda: server.ledger.view().jobs[job_id].phase is Phase.RUNNING)
    assert disk.ran == [job_id]


class Busy(SimulatedRuntime):
    """Notes what it is asked to launch, the first of which it takes until it is told to go on."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.launched: list[str] = []
        self.go_on = threading.Event()

    def launch(self, launch: Launch) -> None:
        self.launched.append(launch.job.spec.user)
        assert self.go_on.wait(PATIENCE_S)
        super().launch(launch)


def test_a_users_launch_on_a_node_waits_for_one_of_another_user_and_not_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_for: list[str] = []
    put = NodeWorker.put

    def noted(worker: NodeWorker, task: Task, user: str = SERVER) -> bool:
        added = put(worker, task, user)
        put_for.append(user)
        return added

    # A job that is STARTING may not wait for the node's thread yet.
    monkeypatch.setattr(NodeWorker, "put", noted)
    busy = Busy()
    observed: list[Observation] = [NodeObserved(BOX.nodes["box"]), *map(ConditionObserved, BOX.conditions.values())]
    server = LiveServer(Home(tmp_path), {"box": SimulatedNode(busy, SystemClock())}, observed)
    try:
        work = Submission(("true",), request=Request(devices=0))
        server.service.submit([work] * 20, ALICE)
        until(lambda: len(server.ledger.view().allocations) == 20)
        until(lambda: put_for.count("alice") == 20)
        server.service.submit([work], replace(ALICE, user="bob"))
        until(lambda: "bob" in put_for)
        busy.go_on.set()
        until(lambda: len(busy.launched) == 21)
    finally:
        busy.go_on.set()
        server.close()
    assert busy.launched.index("bob") <= 2


def evicted(stop_reason: Phase = Phase.PENDING, signal: str | None = "USR1") -> Job:
    base = job(1)
    spec = replace(base.spec, checkpoint_signal=signal, checkpoint_grace_s=0.05)
    return replace(base, spec=spec, phase=Phase.STOPPING, stop_reason=stop_reason)


def attempt(members: int = 1) -> Attempt:
    return Attempt("1.1", "1", tuple(Launch("1.1", job(1), (), rank=rank) for rank in range(members)))


def test_an_evicted_job_is_told_before_it_is_stopped_and_has_its_time() -> None:
    clock, again, signals = ManualClock(), Queue[str](), list[str]()
    checkpoints, tried = Checkpoints(clock, again.put), attempt()
    assert not checkpoints.may_end(evicted(), tried, 0, signals.append)
    assert again.get(timeout=PATIENCE_S) == "1.1"
    assert not checkpoints.may_end(evicted(), tried, 0, signals.append)
    clock.advance(0.05)
    assert checkpoints.may_end(evicted(), tried, 0, signals.append)
    assert signals == ["USR1"]


def test_every_member_of_a_gang_is_told_once_and_their_time_is_over_together() -> None:
    clock, signals = ManualClock(), list[str]()
    checkpoints, tried = Checkpoints(clock, lambda _: None), attempt(members=2)
    for rank in (0, 1, 0, 1):
        assert not checkpoints.may_end(evicted(), tried, rank, signals.append)
    clock.advance(0.05)
    assert all(checkpoints.may_end(evicted(), tried, rank, signals.append) for rank in (0, 1))
    assert signals == ["USR1", "USR1"]


@pytest.mark.parametrize(("word", "told"), [("B:USR1", [["B:USR1"], []]), ("S:USR1", [["S:USR1"], ["S:USR1"]])])
def test_what_is_for_the_main_process_goes_to_the_first_member_alone_and_all_have_their_time(
    word: str, told: list[list[str]]
) -> None:
    checkpoints, tried = Checkpoints(ManualClock(), lambda _: None), attempt(members=2)
    signals: list[list[str]] = [[], []]
    for rank in (0, 1):
        assert not checkpoints.may_end(evicted(signal=word), tried, rank, signals[rank].append)
    assert signals == told


@pytest.mark.parametrize("victim", [evicted(stop_reason=Phase.CANCELLED), evicted(signal=None)])
def test_who_was_cancelled_or_asked_for_no_signal_is_stopped_at_once(victim: Job) -> None:
    signals = list[str]()
    assert Checkpoints(ManualClock(), lambda _: None).may_end(victim, attempt(), 0, signals.append)
    assert signals == []
