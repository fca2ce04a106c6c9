"""One writer: groups, syncs, and folds its log when nobody waits."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from corral.core.ledger import writer
from corral.core.ledger.database import Database
from corral.core.ledger.store import SqlLedger
from corral.core.ledger.writer import BATCH_LIMIT
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.set_apart import SetApart, set_apart
from corral.core.model.errors import LedgerFailed
from corral.core.model.fact import Delta, JobSubmitted, NodeObserved, SiteArranged
from corral.core.model.queues.queue import Pool
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.fair_queue import SERVER
from tests.core.ledger.making import a_job, send, submitted, url_of, write


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
    database.create()
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


def _say(decided: Decided[None], _: View) -> Decided[None]:
    return decided


class Published:
    """The jobs of each transaction, of all that is put while another operation holds the writer."""

    def __init__(self, ledger: SqlLedger) -> None:
        self.batches: list[list[str]] = []
        self._ledger = ledger
        self._gate, begun = threading.Event(), threading.Event()
        self._futures: list[Future[None]] = []

        def hold(_: View) -> Decided[None]:
            begun.set()
            self._gate.wait(60)
            return Decided((), None)

        self._futures.append(ledger.commit(hold))
        assert begun.wait(60)
        ledger.subscribe(self._listen)

    def _listen(self, _view: View, deltas: Sequence[Delta]) -> None:
        self.batches.append([delta.job.id for delta in deltas if isinstance(delta, JobSubmitted)])

    def put(self, user: str, *numbers: int, jobs: int = 1) -> None:
        for number in numbers:
            decided = Decided((submitted(a_job(number)),), None)
            self._futures.append(self._ledger.commit(partial(_say, decided), user=user, jobs=jobs))

    def go(self) -> list[list[str]]:
        self._gate.set()
        for future in self._futures:
            future.result(60)
        return self.batches


def test_users_take_turns_and_what_is_one_users_is_written_in_its_order(ledger: SqlLedger) -> None:
    published = Published(ledger)
    published.put("ann", *range(1, 2 * BATCH_LIMIT))
    published.put("bob", 1_000, 1_001)
    published.put(SERVER, 2_000)
    written = [*chain.from_iterable(published.go())]
    assert written[:6] == ["1", "1000", "2000", "2", "1001", "3"]
    assert [job for job in written if int(job) < 1_000] == list(map(str, range(1, 2 * BATCH_LIMIT)))


def test_an_operation_about_many_jobs_has_a_transaction_of_its_own_and_those_of_others_come_between(
    ledger: SqlLedger,
) -> None:
    published = Published(ledger)
    published.put("ann", 1, 2, jobs=10_000)
    published.put("ann", 3)
    published.put("bob", 10, 11)
    published.put(SERVER, 20, 21)
    assert published.go() == [["1"], ["10", "20", "11", "21"], ["2"], ["3"]]


def test_a_transaction_is_about_so_many_jobs_at_most(ledger: SqlLedger) -> None:
    published = Published(ledger)
    published.put("ann", *range(1, 7), jobs=100)
    published.put("bob", 10, jobs=60)
    assert published.go() == [["1", "10"], ["2", "3"], ["4", "5"], ["6"]]


def test_nodes_that_join_one_by_one_are_cut_for_pools_once_a_batch_and_known_to_each_decision(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts: list[int] = []

    def cut(pools: Mapping[str, Pool], nodes: Mapping[str, Node], *args: Any, **named: Any) -> SetApart:
        cuts.append(len(nodes))
        return set_apart(pools, nodes, *args, **named)

    def has(view: View) -> int:
        assert view.set_apart == set_apart(view.pools, view.nodes)
        return sum(map(len, view.set_apart["lab"].values()))

    def join(number: int) -> None:
        device = Device(f"GPU-{number}", 0, "NVIDIA A100-SXM4-80GB", 81920)
        ledger.observe([NodeObserved(Node(f"n{number:03}", (device,), 8000, 65536))])

    ledger.observe([SiteArranged(pools=(Pool("lab", (), users=("alice",), part=0.5),))])
    write(ledger)
    monkeypatch.setattr("corral.core.model.view.set_apart", cut)
    gate = threading.Event()
    ledger.commit(lambda _: Decided((), gate.wait(60)))
    for number in range(100):
        join(number)
    between = ledger.commit(lambda view: Decided((), has(view)))
    for number in range(100, 120):
        join(number)
    gate.set()
    assert between.result() == 50
    write(ledger)
    assert has(ledger.view()) == 60
    # The gate may be in a batch of its own, or in that of the first nodes.
    assert len(cuts) <= 4
    assert cuts[-1] == 120
