"""A job whose spec was changed is on disk as it is in memory, and the journal still says how it was submitted."""

from dataclasses import replace
from pathlib import Path

from corral.core.ledger.fold import check, fold
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.fact import JobChanged, JobRequeued, JobSubmitted, JobUpdated
from corral.core.model.jobs.phase import Phase
from corral.core.ports.ledger import JobQuery
from tests.core.ledger.making import a_job, ended, given_back, made, submitted, url_of, write


def renamed(job_id: str, before: str, after: str) -> JobUpdated:
    return JobUpdated(job_id, {"name": after, "time_limit_s": 60.0}, {"name": before}, at=2000.0, by="alice")


def moved(job_id: str, before: str, after: str) -> JobUpdated:
    return JobUpdated(job_id, {"queue": after}, {"queue": before}, at=2000.0, by="alice")


def test_a_changed_spec_survives_tables_journal_and_fold(ledger: SqlLedger, tmp_path: Path) -> None:
    first, second = a_job(1, name="old"), a_job(2, name="old")
    write(ledger, submitted(first))
    write(ledger, renamed("1", "old", "new"))
    # In one batch with its submission, and again after it has been.
    write(ledger, submitted(second), renamed("2", "old", "new"), ended("2", Phase.CANCELLED))
    live, journal = ledger.view(), ledger.journal()
    assert [job.id for job in ledger.jobs(JobQuery(name="new"))] == ["2", "1"]
    ledger.close()
    again = open_ledger(url_of(tmp_path))
    reopened, found = again.view(), again.find_job("2")
    again.close()
    assert check(url_of(tmp_path)) == ()
    assert found is not None
    for job in (live.jobs["1"], fold(journal).view.jobs["1"], reopened.jobs["1"], found):
        assert (job.spec.name, job.spec.time_limit_s) == ("new", 60.0)
        assert job.spec.env == first.spec.env
    submissions = [entry.fact for entry in journal if isinstance(entry.fact, JobSubmitted)]
    assert [fact.job.spec.name for fact in submissions] == ["old", "old"]


def test_what_a_job_used_counts_to_the_queue_that_it_was_in_then(ledger: SqlLedger, tmp_path: Path) -> None:
    write(
        ledger,
        submitted(a_job(1)),
        JobChanged("1", {"phase": Phase.STARTING, "allocation_id": "1.1"}, at=2000.0, by="test"),
        made("1"),
        JobChanged("1", {"phase": Phase.PENDING, "allocation_id": None}, at=2500.0, by="test"),
        given_back("1", at=2500.0),
        moved("1", "default", "day"),
        moved("1", "day", "night"),
        made("1", attempt=2),
        given_back("1", attempt=2),
    )
    assert {one.queue for one in ledger.allocated(0.0, 5000.0)} == {"default", "night"}
    ledger.close()
    assert check(url_of(tmp_path)) == ()


def test_a_requeued_job_keeps_its_changes(ledger: SqlLedger, tmp_path: Path) -> None:
    write(ledger, submitted(a_job(1, name="old")), renamed("1", "old", "new"), ended("1", Phase.FAILED))
    job = ledger.find_job("1")
    assert job is not None
    write(ledger, JobRequeued(replace(job, phase=Phase.PENDING), at=3000.0, by="alice"), moved("1", "default", "night"))
    spec = ledger.view().jobs["1"].spec
    assert (spec.name, spec.queue) == ("new", "night")
    ledger.close()
    assert check(url_of(tmp_path)) == ()
