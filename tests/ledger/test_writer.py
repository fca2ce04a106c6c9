"""One writer: groups, syncs, and folds its log when nobody waits."""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from corral.ledger import writer
from corral.ledger.database import Database
from corral.ledger.store import SqlLedger
from corral.ledger.writer import BATCH_LIMIT
from corral.model.errors import LedgerFailed
from corral.model.fact import Delta, JobSubmitted
from corral.model.view import View
from corral.ports.ledger import Decided
from tests.ledger.making import a_job, send, submitted, url_of, write


def test_what_waits_is_written_together_but_not_without_bound(ledger: SqlLedger) -> None:
    sizes: list[int] = []
    gate = threading.Event()
    ledger.subscribe(lambda view, deltas: sizes.append(len(deltas)))
    ledger.commit(lambda view: Decided((), gate.wait(60)))
    futures = [send(ledger, submitted(a_job(number))) for number in range(1, 2 * BATCH_LIMIT + 1)]
    gate.set()
    for future in futures:
        future.result()
    assert sum(sizes) == 2 * BATCH_LIMIT
    assert max(sizes) == BATCH_LIMIT


def test_transactions_are_counted_and_those_that_the_disk_did_not_take_apart(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ledger, submitted(a_job(1)), submitted(a_job(2)))
    counted = [count for _, count in ledger.commits.facts.buckets()]
    assert (counted[-1], ledger.commits.facts.sum, ledger.commits.failures) == (1, 2.0, 0)
    assert 0.0 < ledger.commits.seconds.sum < 60.0
    with pytest.raises(LedgerFailed, match="cannot hold this"):
        write(ledger, submitted(replace(a_job(3), sequence=2**70)))
    assert ledger.commits.failures == 0

    def full(_: Database) -> None:
        raise LedgerFailed("no space left")

    monkeypatch.setattr(Database, "writing", full)
    with pytest.raises(LedgerFailed, match="no space left"):
        write(ledger, submitted(a_job(4)))
    monkeypatch.undo()
    assert (ledger.commits.failures, ledger.commits.facts.sum) == (1, 2.0)


def test_a_commit_is_synced_to_the_disk_before_it_counts(tmp_path: Path) -> None:
    database = Database(url_of(tmp_path))
    with database.writing() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    database.close()


def test_commits_are_published_in_the_order_in_which_they_were_given(ledger: SqlLedger) -> None:
    order: list[str] = []

    def listen(_view: View, deltas: Sequence[Delta]) -> None:
        order.extend(delta.job.id for delta in deltas if isinstance(delta, JobSubmitted))

    ledger.subscribe(listen)
    futures = [send(ledger, submitted(a_job(number))) for number in range(300, 0, -1)]
    futures[-1].result()
    assert order == [str(number) for number in range(300, 0, -1)]


def test_the_log_is_folded_into_the_database_once_nothing_happens(
    ledger: SqlLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "IDLE_S", 3600.0)
    before = (tmp_path / "ledger.db").stat().st_size
    write(ledger, *(submitted(a_job(number)) for number in range(1, 300)))
    assert (tmp_path / "ledger.db").stat().st_size == before
    monkeypatch.setattr(writer, "IDLE_S", 0.01)
    write(ledger, submitted(a_job(300)))
    give_up_at = time.monotonic() + 60
    while (tmp_path / "ledger.db").stat().st_size == before:
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
    write(ledger, submitted(a_job(301)))
    assert ledger.find_job("301") is not None
