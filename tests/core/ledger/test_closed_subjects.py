"""What is due is found again by the next server; what was done leaves nothing for it to read."""

from pathlib import Path

from corral.core.ledger.fold import check, fold
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.features.channels.facts import NoticeDue, NoticeGiven, NotificationDue, NotificationGiven
from corral.features.channels.slice import DueNotice, DueNotification, NoticesSlice
from corral.features.feature_list import slices
from tests.core.ledger.making import a_job, ended, submitted, url_of, write


def due(job_id: str, at: float = 3000.0) -> NotificationDue:
    return NotificationDue(job_id, "alice", at=at, by="test")


def given(job_id: str) -> NotificationGiven:
    return NotificationGiven(job_id, at=3001.0, by="test")


def reopened(tmp_path: Path) -> dict[str, DueNotification]:
    again = open_ledger(url_of(tmp_path), slices=slices())
    found = dict(again.snapshot().of(NoticesSlice).notifications)
    assert dict(fold(again.journal(), slices()).of(NoticesSlice).notifications) == found
    again.close()
    assert check(url_of(tmp_path), slices()) == ()
    return found


def test_what_is_due_outlives_the_server_and_what_was_given_is_not_due_again(ledger: SqlLedger, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write(ledger, submitted(a_job(number)))
        write(ledger, ended(str(number)), due(str(number)))
    write(ledger, given("1"))
    write(ledger, given("3"), due("3", at=3005.0))
    ledger.close()
    assert reopened(tmp_path) == {
        "2": DueNotification("2", "alice", 3000.0),
        "3": DueNotification("3", "alice", 3005.0),
    }


def test_what_is_due_and_given_in_one_commit_leaves_nothing(ledger: SqlLedger, tmp_path: Path) -> None:
    write(ledger, submitted(a_job(1)), ended("1"), due("1"), given("1"))
    ledger.close()
    assert reopened(tmp_path) == {}


def test_a_notice_of_a_start_and_one_of_an_end_are_due_on_their_own(ledger: SqlLedger, tmp_path: Path) -> None:
    start, end = (NoticeDue("1", "alice", started, at=3000.0, by="test") for started in (True, False))
    write(ledger, submitted(a_job(1)), start, end)
    write(ledger, NoticeGiven(start.key, at=3001.0, by="test"))
    ledger.close()
    again = open_ledger(url_of(tmp_path), slices=slices())
    found, folded = (dict(one.of(NoticesSlice).notices) for one in (again.snapshot(), fold(again.journal(), slices())))
    again.close()
    assert found == folded == {"end of 1": DueNotice("1", "alice", False, 3000.0)}
    assert check(url_of(tmp_path), slices()) == ()
