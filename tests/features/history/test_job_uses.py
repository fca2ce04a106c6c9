"""What ended jobs used of their GPUs: learned once each, of those that were measured, also after a restart."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.fact import (
    AllocationEnded,
    AllocationMade,
    Fact,
    JobChanged,
    JobSubmitted,
    MemoryPeaksObserved,
)
from corral.core.model.jobs.job import Job, JobKind, JobSpec, Request
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.runs.packing import program_of
from corral.core.model.runs.prediction import PastValues
from corral.core.model.runs.run_history import MeteredHour
from corral.core.ports.ledger import Decided
from corral.core.ports.monitoring import UseOfAlike
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.job_uses import JobUses
from corral.features.history.recording.meter import Meter
from corral.features.history.recording.meter_table import MeterTable

T0 = 472_222 * 3600.0
TRAIN = JobSpec("alice", ("python", "train.py", "--seed", "1"), name="train.py", request=Request(devices=2))
UUIDS = ("GPU-0", "GPU-1")


class Past:
    """A ledger and a meter's table, in which jobs of two GPUs run for 1,000 s and are measured."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ledger: SqlLedger = open_ledger(f"sqlite:///{path / 'ledger.db'}")
        self.table = MeterTable(HistoryFile(path / "history.db"))
        self.number = 0
        self.restart()

    def restart(self) -> None:
        view = self.ledger.view
        self.uses = JobUses(self.ledger, Meter(self.table, view, dict, ManualClock(T0 + 90_000), 1.0))

    def begin(self, spec: JobSpec = TRAIN) -> list[Fact]:
        """Write the start of a job; return the facts of its end."""
        self.number += 1
        at = T0 + 1100 * self.number
        job = Job(str(self.number), self.number, spec, at)
        placement = Placement((Member("box", tuple(Grant(uuid, 1000) for uuid in UUIDS)),))
        allocation = Allocation(f"{job.id}.1", job.id, spec.user, placement, at)
        began: JobPatch = {"phase": Phase.RUNNING, "allocation_id": allocation.id, "launches": 1, "started_at": at}
        self.write([JobSubmitted(job, at=at, by="alice")])
        self.write([AllocationMade(allocation, at=at, by="test")])
        self.write([JobChanged(job.id, {**began, "devices": UUIDS}, at=at, by="test")])
        end: JobPatch = {"phase": Phase.SUCCEEDED, "allocation_id": None, "ended_at": at + 1000}
        return [
            JobChanged(job.id, end, at=at + 1000, by="test"),
            AllocationEnded(allocation.id, job.id, at=at + 1000, by="test"),
        ]

    def write(self, facts: list[Fact]) -> None:
        self.ledger.commit(lambda _: Decided(tuple(facts), None)).result()

    def measured(self, mib: int | None, *, used_ms: int = 400_000, whole_ms: int = 1_000_000) -> None:
        (allocation,) = self.ledger.view().allocations.values()
        hour = int((T0 + 1100 * self.number) // 3600)
        self.table.add(
            [
                MeteredHour(hour, allocation.id, uuid, used_ms, whole_ms - used_ms, 1, mib)
                for uuid in allocation.placement.uuids
            ]
        )

    def run(self, mib: int | None, *, spec: JobSpec = TRAIN, **measured: int) -> None:
        end = self.begin(spec)
        self.measured(mib, **measured)
        self.uses.look()
        self.write(end)
        self.uses.look()


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    past = Past(tmp_path)
    yield past
    past.ledger.close()


def test_nine_jobs_tell_what_the_next_one_uses_and_a_restart_forgets_nothing(past: Past) -> None:
    for mib in range(1000, 10_000, 1000):
        past.run(mib)
    told = past.uses.predict(TRAIN)
    assert told.memory_mib is not None
    assert told.used_pct is not None
    assert (told.memory_mib.jobs, told.memory_mib.most, told.used_pct.median) == (9, 9000.0, 40.0)
    past.restart()
    past.uses.look()
    assert past.uses.predict(TRAIN) == told
    past.uses.look()
    assert past.uses.predict(TRAIN) == told


def test_of_eight_nothing_is_told(past: Past) -> None:
    for _ in range(8):
        past.run(1000)
    assert past.uses.predict(TRAIN) == UseOfAlike(None, None)


def test_what_was_measured_for_a_part_of_its_time_or_not_at_all_does_not_count(past: Past) -> None:
    for _ in range(12):
        past.run(1000, whole_ms=800_000)
    assert past.uses.predict(TRAIN) == UseOfAlike(None, None)
    for _ in range(9):
        past.run(None)
    told = past.uses.predict(TRAIN)
    assert told.memory_mib is None
    assert told.used_pct is not None


def test_reservations_say_nothing_of_programs(past: Past) -> None:
    reserved = replace(TRAIN, kind=JobKind.RESERVE)
    for _ in range(9):
        past.run(1000, spec=reserved)
    assert past.uses.predict(reserved) == UseOfAlike(None, None)


def test_the_memory_of_packable_jobs_is_told_to_the_scheduler_also_after_a_restart(past: Past) -> None:
    packable = replace(TRAIN, packable=True)
    program = program_of(packable)
    assert program is not None
    past.run(30_000)
    for mib in (20_000, 22_000, None):
        past.run(mib, spec=packable)
    past.write([])
    expected = {"alice": PastValues({program: (20_000.0, 22_000.0)})}
    assert past.ledger.view().memory_peaks == expected
    past.ledger.observe([MemoryPeaksObserved({})])
    past.write([])
    past.restart()
    past.uses.look()
    past.write([])
    assert past.ledger.view().memory_peaks == expected
