"""Jobs that ended within a stretch of time, added up: which count, and for whom."""

from pathlib import Path

import pytest

from corral.core.ledger.database import Database
from corral.core.ledger.ended_jobs import question_of
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.devices.group_use import EndedJobSums, KpiBy
from corral.core.model.fact import AllocationEnded, AllocationMade, Fact, JobChanged, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from tests.core.ledger.making import url_of, write

BEGIN, END = 1000.0, 2000.0


def life(
    number: int,
    phase: Phase,
    end: float,
    *,
    spec: JobSpec | None = None,
    where: tuple[str, str] | None = ("n1", "GPU-0"),
    waited: tuple[tuple[str, float], ...] = (),
) -> list[Fact]:
    """A job that was submitted 100 s before its end, and started 60 s before it, 3 s after it had got its device."""
    job_id, begin = str(number), end - 60
    job = Job(job_id, number, JobSpec("alice") if spec is None else spec, end - 100)
    grants = () if where is None else (Grant(where[1], 1000),)
    placement = Placement((Member("n1" if where is None else where[0], grants),))
    made = Allocation(f"{job_id}.1", job_id, job.spec.user, placement, begin - 3)
    return [
        JobSubmitted(job, at=job.submitted_at, by="alice"),
        AllocationMade(made, at=begin - 3, by="test"),
        JobChanged(job_id, {"phase": Phase.RUNNING, "started_at": begin, "waited": waited}, at=begin, by="test"),
        JobChanged(job_id, {"phase": phase, "ended_at": end}, at=end, by="test"),
        AllocationEnded(made.id, job_id, at=end, by="test"),
    ]


def never_started(number: int, phase: Phase, end: float) -> list[Fact]:
    job = Job(str(number), number, JobSpec("alice"), end - 100)
    return [
        JobSubmitted(job, at=job.submitted_at, by="alice"),
        JobChanged(job.id, {"phase": phase, "ended_at": end}, at=end, by="test"),
    ]


@pytest.fixture
def ledger(tmp_path: Path) -> SqlLedger:
    return open_ledger(url_of(tmp_path))


def test_ends_within_the_time_count_and_cancelled_ones_do_not(ledger: SqlLedger) -> None:
    phases = (Phase.SUCCEEDED, Phase.FAILED, Phase.TIMED_OUT, Phase.LOST, Phase.CANCELLED)
    facts = [fact for number, phase in enumerate(phases) for fact in life(number, phase, BEGIN + number)]
    write(ledger, *facts, *life(7, Phase.SUCCEEDED, BEGIN - 1), *life(8, Phase.SUCCEEDED, END))
    write(ledger, *never_started(9, Phase.FAILED, BEGIN))
    assert ledger.ended_jobs(BEGIN, END) == {"": EndedJobSums(5, 4, 1, 100.0, 4, 0.0, 4, 12.0)}
    assert ledger.ended_jobs(END + 1, END + 2) == {}
    ledger.close()


def test_a_wait_is_without_the_time_that_a_job_was_parked(ledger: SqlLedger) -> None:
    waited = (("Held", 5.0), ("Resources", 20.0), ("Dependency", 4.0), ("Priority", 2.5), ("BeginTime", 8.0))
    write(ledger, *life(1, Phase.SUCCEEDED, BEGIN, waited=waited), *life(2, Phase.FAILED, BEGIN))
    (found,) = ledger.ended_jobs(BEGIN, END).values()
    assert (found.started, found.waited_s) == (2, 22.5)
    ledger.close()


def test_a_job_that_is_tried_again_has_not_ended(ledger: SqlLedger) -> None:
    write(ledger, *life(1, Phase.PENDING, BEGIN))
    assert ledger.ended_jobs(BEGIN, END) == {}
    ledger.close()


def test_jobs_are_told_by_whom_they_are_and_where_they_were(ledger: SqlLedger) -> None:
    bob = JobSpec("bob", project="sft", queue="night")
    write(
        ledger,
        *life(1, Phase.SUCCEEDED, BEGIN),
        *life(2, Phase.FAILED, BEGIN, spec=bob, where=("n2", "GPU-9")),
        *life(3, Phase.FAILED, BEGIN, spec=bob, where=None),
    )

    def counted(by: KpiBy) -> dict[str | None, int]:
        return {key: jobs.ended for key, jobs in ledger.ended_jobs(BEGIN, END, by).items()}

    assert counted(KpiBy.USER) == {"alice": 1, "bob": 2}
    assert counted(KpiBy.PROJECT) == {"default": 1, "sft": 2}
    assert counted(KpiBy.QUEUE) == {"default": 1, "night": 2}
    assert counted(KpiBy.NODE) == {"n1": 2, "n2": 1}
    assert counted(KpiBy.MEANS) == {"GPU-0 1000": 1, "GPU-9 1000": 1, None: 1}
    ledger.close()


@pytest.mark.parametrize("by", [None, *KpiBy])
def test_an_index_finds_the_jobs_and_what_they_had(ledger: SqlLedger, tmp_path: Path, by: KpiBy | None) -> None:
    database = Database(url_of(tmp_path))
    with database.reading() as connection:
        sql = question_of(BEGIN, END, by).compile(connection.engine, compile_kwargs={"literal_binds": True})
        plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}")]
    database.close()
    ledger.close()
    assert any("jobs_by_end" in step for step in plan)
    assert any("allocations_by_job" in step for step in plan)
    assert not [step for step in plan if step.startswith(("SCAN jobs", "SCAN allocations"))]
