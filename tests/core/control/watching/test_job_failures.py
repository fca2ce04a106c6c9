"""Devices on which jobs fail, as the ledger has their ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.control.watching.job_failures import JobFailures
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.devices.device import DeviceSample
from corral.core.model.devices.health import SignKind
from corral.core.model.fact import AllocationEnded, JobChanged
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.placing.plan import Start
from corral.core.ports.ledger import Decided
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted

GOOD, BAD = "GPU-box-0", "GPU-box-1"


class Samples:
    def latest(self) -> dict[str, DeviceSample]:
        return {uuid: DeviceSample(uuid, T0) for uuid in (GOOD, BAD)}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    opened = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    opened.observe(observed(box(gpus=2)))  # type: ignore[arg-type]
    yield opened
    opened.close()


def run(ledger: SqlLedger, number: int, user: str, uuid: str, phase: Phase) -> None:
    """Run a job of this user on this device until it ends so."""
    start = Start(str(number), Placement((Member("box", (Grant(uuid, 1000),)),)), "test")
    at = T0 + number
    facts = [*submitted(job(number, user=user)), *started(start, at=at, user=user)]
    ledger.commit(lambda _: Decided(tuple(facts), None)).result()  # type: ignore[arg-type]
    end = JobChanged(str(number), {"phase": phase, "allocation_id": None, "ended_at": at}, at=at, by="test")
    freed = AllocationEnded(f"{number}.1", str(number), at=at, by="test")
    ledger.commit(lambda _: Decided((end, freed), None)).result()


def run_all(ledger: SqlLedger) -> None:
    for number, user in enumerate(("ann", "bob", "cem")):
        run(ledger, 2 * number + 1, user, GOOD, Phase.SUCCEEDED)
        run(ledger, 2 * number + 2, user, BAD, Phase.FAILED)


def signs(failures: JobFailures) -> dict[str, list[SignKind]]:
    return {uuid: [sign.kind for sign in sample.signs] for uuid, sample in failures.latest().items()}


def test_the_sample_of_a_device_on_which_jobs_of_several_users_fail_says_so(ledger: SqlLedger) -> None:
    failures = JobFailures(ledger, Samples(), ManualClock(T0 + 100))
    ledger.subscribe(failures.on_change)
    assert signs(failures) == {GOOD: [], BAD: []}
    run_all(ledger)
    assert signs(failures) == {GOOD: [], BAD: [SignKind.JOB_FAILURES]}


def test_what_ended_before_the_server_started_counts(ledger: SqlLedger) -> None:
    run_all(ledger)
    failures = JobFailures(ledger, Samples(), ManualClock(T0 + 100))
    assert signs(failures) == {GOOD: [], BAD: [SignKind.JOB_FAILURES]}
