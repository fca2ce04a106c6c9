"""Who is told and stopped when a daemon dies, and who is left alone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.control.watching.guards import DaemonWatch, Stopper, guarded
from corral.ledger.store import SqlLedger, open_ledger
from corral.model.allocation import Allocation, Grant, Member, Placement
from corral.model.device import Device, Node
from corral.model.fact import AllocationEnded, AllocationMade, JobChanged, JobSubmitted, NodeObserved
from corral.model.job import Job, JobSpec, Phase
from corral.model.job_patch import JobPatch
from corral.model.means import Enforcement, Level, Means
from corral.ports.ledger import Decided
from corral.sharing.mps import Mps
from corral.sharing.mps_daemon import MpsHealth, MpsState

RUNNING, DOWN, HUNG = MpsHealth(MpsState.RUNNING, 77), MpsHealth(MpsState.DOWN, None), MpsHealth(MpsState.HUNG, 77)
FAULT = MpsHealth(MpsState.FAULT, 77, "a client's fault")


class StagedMps(Mps):
    """MPS whose daemon's health is what the test says; something may happen while it is asked."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.now = RUNNING
        self.meanwhile: Callable[[], None] = lambda: None
        self.restarts = 0

    def health(self, device: Device) -> MpsHealth:
        self.meanwhile()
        return self.now

    def prepare(self, device: Device) -> None:
        self.restarts += 1


class Watched:
    """A ledger with two jobs on an MPS device, and what was done to them."""

    def __init__(self, ledger: SqlLedger) -> None:
        self.ledger, self.mps = ledger, StagedMps()
        self.told: list[str] = []
        self.stopped: list[str] = []
        stopper = Stopper(ledger, SystemClock(), self.stopped.append)
        self.watch = DaemonWatch(ledger, self.mps, lambda job_id, line: self.told.append(job_id), stopper)
        device = Device("GPU-m", 0, "NVIDIA A100", 81920, means=Means.MPS)
        ledger.observe([NodeObserved(Node("here", (device,), 8000, 32768))])
        for number in (1, 2):
            self.add(number)

    def add(self, number: int) -> None:
        job = Job(str(number), number, JobSpec("alice", ("true",)), 0.0)
        grants = (Grant("GPU-m", 500, 40960),)
        made = Allocation(f"{number}.1", job.id, "alice", Placement((Member("here", grants),)), 0.0)
        changes: JobPatch = {"phase": Phase.RUNNING, "allocation_id": made.id}
        facts = (
            JobSubmitted(job, at=0.0, by="alice"),
            JobChanged(job.id, changes, at=0.0, by="test"),
            AllocationMade(made, at=0.0, by="test"),
        )
        self.ledger.commit(lambda _: Decided(facts, None)).result()

    def finish(self, number: int) -> None:
        ended = (
            JobChanged(str(number), {"phase": Phase.SUCCEEDED, "ended_at": 1.0}, at=1.0, by="test"),
            AllocationEnded(f"{number}.1", str(number), at=1.0, by="test"),
        )
        self.ledger.commit(lambda _: Decided(ended, None)).result()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    yield Watched(ledger)
    ledger.close()


def test_a_daemon_that_is_well_is_left_alone(watched: Watched) -> None:
    watched.watch.look()
    watched.watch.look()
    assert (watched.told, watched.stopped, watched.mps.restarts) == ([], [], 0)


@pytest.mark.parametrize("health", [DOWN, FAULT, HUNG])
def test_when_it_fails_every_client_is_told_and_lost_and_it_is_started_afresh(
    watched: Watched, health: MpsHealth
) -> None:
    watched.watch.look()
    watched.mps.now = health
    watched.watch.look()
    assert (watched.told, watched.stopped, watched.mps.restarts) == (["1", "2"], ["1.1", "2.1"], 1)
    jobs = watched.ledger.view().jobs
    assert [(jobs[job_id].phase, jobs[job_id].stop_reason) for job_id in ("1", "2")] == [
        (Phase.STOPPING, Phase.LOST)
    ] * 2


def test_another_daemon_in_its_place_means_that_its_clients_are_lost(watched: Watched) -> None:
    watched.watch.look()
    watched.mps.now = MpsHealth(MpsState.RUNNING, 78)
    watched.watch.look()
    assert (watched.told, watched.mps.restarts) == (["1", "2"], 0)


def test_a_daemon_that_was_stopped_after_its_last_client_has_not_failed(watched: Watched) -> None:
    watched.watch.look()

    def leave() -> None:
        watched.mps.meanwhile = lambda: None
        watched.finish(1)
        watched.finish(2)

    watched.mps.meanwhile, watched.mps.now = leave, DOWN
    watched.watch.look()
    assert (watched.told, watched.mps.restarts) == ([], 0)


def test_only_memory_that_nothing_else_enforces_is_guarded(watched: Watched) -> None:
    assert guarded(watched.ledger.view()) == []
    grants = (Grant("GPU-m", 500, 40960),)
    enforcement = Enforcement(Level.GUARDED, Level.ADVISORY)
    made = Allocation("9.1", "9", "bob", Placement((Member("here", grants),)), 0.0, enforcement=enforcement)
    view = watched.ledger.view().advance([AllocationMade(made, at=0.0, by="test")])
    assert [(bound.job_id, bound.limit_mib) for bound in guarded(view)] == [("9", 40960)]
