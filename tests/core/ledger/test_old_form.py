"""A ledger that began with format 0006, whose facts named nobody but for cordons, is read and goes on."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from corral.core.ledger.fold import check, fold
from corral.core.ledger.store import open_ledger
from corral.core.lifecycle.past_attempts import attempts_of
from corral.core.model.fact import (
    AllocationEnded,
    DeviceCordoned,
    DeviceUncordoned,
    JobChanged,
    JobRequeued,
    ServerPart,
)
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.attempt import AttemptEnd
from tests.core.ledger.making import url_of, write

WRITTEN_THEN = Path(__file__).with_name("ledger_of_0006.sql")
"""Four jobs: one that another followed, one that made room, one that failed and was requeued; and two cordons.

Commit eb36f5f9 has brought it to format 0011, and left the journal as it was written.
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw:
        raw.execute("PRAGMA journal_mode=WAL")
        raw.executescript(WRITTEN_THEN.read_text(encoding="utf-8"))
    return url_of(tmp_path)


def test_its_tables_and_its_journal_still_agree(url: str) -> None:
    ledger = open_ledger(url)
    live, folded = ledger.view(), fold(ledger.journal()).view
    ledger.close()
    assert check(url) == ()
    for view in (live, folded):
        assert {job.id: job.phase for job in view.jobs.values()} == {
            "2": Phase.STOPPING,
            "3": Phase.PENDING,
            "4": Phase.PENDING,
        }
        assert view.jobs["3"].evictions == 1
        assert view.jobs["2"].spec.env == (("HOME", "/home/alice"),)
        assert set(view.allocations) == {"2.1"}
        assert view.cordons == {"GPU-1": "xid 79"}


def test_its_facts_have_the_types_of_today_and_say_that_nobody_is_named(url: str) -> None:
    ledger = open_ledger(url)
    facts = [entry.fact for entry in ledger.journal()]
    ledger.close()
    assert JobChanged("3", {"held": False}, at=1101.0, by=ServerPart.UNRECORDED) in facts
    assert AllocationEnded("3.1", "3", 1200.0, at=1206.0, by=ServerPart.UNRECORDED) in facts
    assert DeviceCordoned("GPU-1", "xid 79", at=1301.0, by="root") in facts
    assert sum(isinstance(fact, JobRequeued) for fact in facts) == 1
    assert {fact.by for fact in facts} == {ServerPart.UNRECORDED, "root"}


def test_it_tells_the_attempts_of_its_jobs(url: str) -> None:
    ledger = open_ledger(url)
    told = {
        job_id: [(one.allocation.id, one.ended_as, one.reason) for one in attempts_of(facts)]
        for job_id in "1234"
        for facts in [[entry.fact for entry in ledger.latest_entries(job_id, 100)]]
    }
    ledger.close()
    assert told == {
        "1": [("1.1", AttemptEnd.SUCCEEDED, "succeeded")],
        "2": [("2.1", None, None)],
        "3": [("3.1", AttemptEnd.PREEMPTED, "preempted for job 4: job 4 is more urgent")],
        "4": [
            ("4.1", AttemptEnd.NOT_LAUNCHED, "not launched: no memory for a fork"),
            ("4.2", AttemptEnd.FAILED, "failed with exit code 3; requeued"),
        ],
    }


def test_it_goes_on_where_it_was(url: str) -> None:
    ledger = open_ledger(url)
    write(ledger, DeviceUncordoned("GPU-1", at=2000.0, by="alice"))
    ledger.close()
    again = open_ledger(url)
    assert again.view().cordons == {}
    assert again.journal()[-1].fact == DeviceUncordoned("GPU-1", at=2000.0, by="alice")
    again.close()
    assert check(url) == ()
