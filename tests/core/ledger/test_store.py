"""What the port promises, on a real file."""

import stat
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import cast

import pytest

from corral.core.ledger.fold import check
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.devices.device import DeviceCondition, Node
from corral.core.model.errors import Conflict, LedgerFailed, Refused
from corral.core.model.fact import (
    ConditionObserved,
    Delta,
    DeviceCordoned,
    DeviceUncordoned,
    Fact,
    JobChanged,
    JobRequeued,
    NodeObserved,
)
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, JobQuery
from tests.core.ledger.making import a_job, ended, given_back, made, send, submitted, url_of, write


def test_a_commit_resolves_with_the_value_decided_once_its_view_is_published(ledger: SqlLedger) -> None:
    job = a_job(1)
    assert ledger.commit(lambda view: Decided((submitted(job),), "seventeen")).result() == "seventeen"
    assert ledger.view().jobs == {"1": job}


def test_what_was_committed_is_there_after_reopening(tmp_path: Path) -> None:
    ledger = open_ledger(url_of(tmp_path))
    running = a_job(1, name="train", array_id="9", array_index=4, array_limit=2, waits_for=("7",), launches=1)
    write(ledger, submitted(running), made("1"), DeviceCordoned("GPU-3", "fans", by="root", at=5.0))
    before = ledger.view()
    ledger.close()
    ledger = open_ledger(url_of(tmp_path))
    after = ledger.view()
    ledger.close()
    assert (after.jobs, after.allocations, after.holders) == (before.jobs, before.allocations, before.holders)
    assert (after.cordons, after.dependants) == (before.cordons, before.dependants)


def test_an_operation_that_raises_writes_nothing_and_raises_for_its_own_caller_alone(ledger: SqlLedger) -> None:
    def refuse(view: View) -> Decided[None]:
        raise Conflict("job 1 has ended")

    first = ledger.commit(lambda view: Decided((submitted(a_job(1)),), 1))
    second = ledger.commit(refuse)
    third = ledger.commit(lambda view: Decided((submitted(a_job(3)),), 3))
    assert (first.result(), third.result()) == (1, 3)
    with pytest.raises(Conflict, match="job 1 has ended"):
        second.result()
    assert [entry.sequence for entry in ledger.journal()] == [1, 2]


def test_a_fact_about_an_unknown_job_undoes_its_whole_operation(ledger: SqlLedger) -> None:
    broken = ledger.commit(lambda view: Decided((submitted(a_job(1)), ended("404")), None))
    sound = ledger.commit(lambda view: Decided((submitted(a_job(2)),), tuple(view.jobs)))
    assert sound.result() == ()
    with pytest.raises(KeyError):
        broken.result()
    assert set(ledger.view().jobs) == {"2"}
    assert ledger.find_job("1") is None


def test_each_operation_of_a_batch_sees_those_before_it(ledger: SqlLedger) -> None:
    gate = threading.Event()

    def wait_at_the_gate(view: View) -> Decided[None]:
        gate.wait(60)
        return Decided((), None)

    ledger.commit(wait_at_the_gate)

    def submit(job: Job) -> "Future[tuple[str, ...]]":
        return ledger.commit(lambda view: Decided((submitted(job),), tuple(view.jobs)))

    seen = [submit(a_job(number)) for number in range(1, 4)]
    gate.set()
    assert [future.result() for future in seen] == [(), ("1",), ("1", "2")]


def test_an_ended_job_leaves_the_view_and_stays_in_the_ledger(ledger: SqlLedger) -> None:
    write(ledger, submitted(a_job(1)), made("1"))
    write(ledger, given_back("1"), ended("1"))
    assert ledger.view().jobs == {}
    assert ledger.view().holders == {}
    found = ledger.find_job("1")
    assert found is not None
    assert (found.phase, found.exit_code, found.ended_at) == (Phase.SUCCEEDED, 0, 3000.0)


def test_a_decision_can_find_a_job_that_ended_long_ago_and_requeue_it(ledger: SqlLedger, tmp_path: Path) -> None:
    write(ledger, submitted(a_job(1)))
    write(ledger, ended("1", Phase.FAILED))

    def requeue(view: View) -> Decided[bool]:
        job = ledger.find_job("1")
        assert job is not None
        again = a_job(1, attempts=1)
        return Decided((JobRequeued(again, at=4000.0, by="test"),), job.phase.terminal)

    assert ledger.commit(requeue).result()
    assert ledger.view().jobs["1"].phase is Phase.PENDING
    assert len(ledger.jobs(JobQuery())) == 1
    assert check(url_of(tmp_path)) == ()


def test_the_journal_has_no_gaps_and_answers_by_job(ledger: SqlLedger) -> None:
    facts: list[Fact] = [submitted(a_job(1)), submitted(a_job(2)), made("1"), given_back("1"), ended("1")]
    for fact in facts:
        write(ledger, fact)
    assert [(entry.sequence, entry.fact, entry.at) for entry in ledger.journal()] == [
        (i + 1, fact, fact.at) for i, fact in enumerate(facts)
    ]
    assert [entry.sequence for entry in ledger.journal(job_id="1")] == [1, 3, 4, 5]
    assert [entry.sequence for entry in ledger.journal(after=2, limit=2)] == [3, 4]


def test_observations_advance_the_view_in_order_with_commits_and_are_not_written(ledger: SqlLedger) -> None:
    published: list[Sequence[Delta]] = []
    ledger.subscribe(lambda view, deltas: published.append(tuple(deltas)))
    node = NodeObserved(Node("node", (), cpu_milli=4000, memory_mib=1024))
    condition = ConditionObserved(DeviceCondition("GPU-0", cordoned="not a fact"))
    ledger.observe([node])
    write(ledger, DeviceCordoned("GPU-0", "fans", by="root", at=5.0))
    ledger.observe([condition])
    write(ledger, DeviceUncordoned("GPU-0", by="root", at=6.0))
    flat = [type(delta).__name__ for deltas in published for delta in deltas]
    assert flat == ["NodeObserved", "DeviceCordoned", "ConditionObserved", "DeviceUncordoned"]
    assert len(ledger.journal()) == 2
    assert ledger.view().nodes == {"node": node.node}
    assert ledger.view().conditions["GPU-0"].cordoned is None


def test_a_listener_sees_what_is_already_on_disk_and_published(ledger: SqlLedger) -> None:
    found: list[tuple[bool, bool]] = []

    def listen(view: View, deltas: Sequence[Delta]) -> None:
        found.append((ledger.view() is view, len(ledger.journal()) == len(deltas) > 0))

    ledger.subscribe(listen)
    write(ledger, submitted(a_job(1)))
    assert found == [(True, True)]


def test_a_failing_listener_harms_neither_the_writer_nor_the_others(
    ledger: SqlLedger, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []

    def fail(view: View, deltas: Sequence[Delta]) -> None:
        raise RuntimeError("a bug")

    ledger.subscribe(fail)
    ledger.subscribe(lambda view, deltas: heard.append(view.version))
    write(ledger, submitted(a_job(1)))
    write(ledger, submitted(a_job(2)))
    assert heard == [1, 2]
    assert "listener" in caplog.text


def test_a_decision_without_facts_costs_no_version(ledger: SqlLedger) -> None:
    assert ledger.commit(lambda view: Decided((), view.version)).result() == ledger.view().version == 0


def test_a_commit_cancelled_before_its_turn_is_passed_over(ledger: SqlLedger) -> None:
    gate = threading.Event()
    ledger.commit(lambda view: Decided((), gate.wait(60)))
    ledger.commit(lambda view: Decided((), gate.wait(60)))
    unwanted = ledger.commit(lambda view: Decided((submitted(a_job(1)),), None))
    cancelled = unwanted.cancel()
    gate.set()
    write(ledger, submitted(a_job(2)))
    assert cancelled
    assert set(ledger.view().jobs) == {"2"}


def test_an_operation_that_the_database_cannot_hold_fails_alone(ledger: SqlLedger) -> None:
    gate = threading.Event()
    ledger.commit(lambda view: Decided((), gate.wait(60)))
    first = ledger.commit(lambda view: Decided((submitted(a_job(1)),), 1))
    vast = ledger.commit(lambda view: Decided((submitted(a_job(2, array_index=10**30)),), 2))
    last = ledger.commit(lambda view: Decided((submitted(a_job(3)),), 3))
    gate.set()
    assert (first.result(), last.result()) == (1, 3)
    with pytest.raises(LedgerFailed, match="cannot hold this"):
        vast.result()
    assert [entry.sequence for entry in ledger.journal()] == [1, 2]


def test_an_allocation_cannot_begin_twice(ledger: SqlLedger) -> None:
    write(ledger, submitted(a_job(1)), made("1"))
    with pytest.raises(LedgerFailed, match=r"allocations\.id"):
        write(ledger, made("1"))
    write(ledger, given_back("1"))
    write(ledger, made("1"))
    assert set(ledger.view().allocations) == {"1.1"}


def test_a_value_without_a_plain_form_fails_its_own_operation(ledger: SqlLedger) -> None:
    write(ledger, submitted(a_job(1)))
    with pytest.raises(TypeError, match="no plain form"):
        write(ledger, JobChanged("1", {"reason": cast(str, object())}, at=1.0, by="test"))
    write(ledger, submitted(a_job(2)))


def test_text_that_is_no_utf8_comes_back_as_it_was(ledger: SqlLedger) -> None:
    odd = "caf\udce9 \x00 ☃"
    job = a_job(1, name=odd, user=odd, env=((odd, odd),))
    write(ledger, submitted(job), JobChanged("1", {"reason": odd, "phase": Phase.FAILED}, at=1.0, by="test"))
    found = ledger.find_job("1")
    assert found is not None
    assert (found.spec, found.reason) == (job.spec, odd)
    assert ledger.jobs(JobQuery(name=odd)) == ledger.jobs(JobQuery(users=(odd,))) == (found,)


def test_closing_finishes_what_was_accepted_and_then_refuses_more(tmp_path: Path) -> None:
    ledger = open_ledger(url_of(tmp_path))
    futures = [send(ledger, submitted(a_job(number))) for number in range(1, 600)]
    ledger.close()
    ledger.close()
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(LedgerFailed, match="closed"):
        write(ledger, submitted(a_job(1000)))
    with pytest.raises(LedgerFailed, match="closed"):
        ledger.next_ids(1000)


def test_a_node_that_makes_up_a_launch_skips_no_ids(ledger: SqlLedger) -> None:
    (first,) = ledger.next_ids(1)
    assert not ledger.skip_ids(10**11, 1_000_000)
    assert ledger.skip_ids(int(first) + 7, 1_000_000)
    assert ledger.next_ids(1) == (str(int(first) + 8),)


def test_ids_are_small_decimal_numbers_and_an_orderly_restart_skips_none(tmp_path: Path) -> None:
    given: list[str] = []
    for count in (1, 2, 500, 3):
        ledger = open_ledger(url_of(tmp_path))
        given += ledger.next_ids(count)
        ledger.close()
    assert given == [str(number) for number in range(1, 507)]


def test_ids_taken_by_many_threads_differ(ledger: SqlLedger) -> None:
    taken: list[str] = []
    threads = [
        threading.Thread(target=lambda: taken.extend(i for _ in range(50) for i in ledger.next_ids(7)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken)) == len(taken) == 4 * 50 * 7


def test_a_decision_may_take_ids_itself(ledger: SqlLedger) -> None:
    def decide(view: View) -> Decided[tuple[str, ...]]:
        return Decided((), ledger.next_ids(1_000))

    mine = ledger.commit(decide).result()
    assert not set(mine) & set(ledger.next_ids(1_000))


def test_a_refusal_founded_on_a_decision_that_was_never_written_is_not_told(tmp_path: Path) -> None:
    """Only its future may tell an operation's outcome, and that waits for the disk."""
    ledger = open_ledger(url_of(tmp_path))
    gate = threading.Event()

    def refuse_if_there(view: View) -> Decided[None]:
        if view.jobs:
            raise Refused("there is a job already")
        return Decided((), None)

    ledger.commit(lambda view: Decided((), gate.wait(60)))
    doomed = ledger.commit(lambda view: Decided((submitted(a_job(1, array_index=10**30)),), None))
    second = ledger.commit(refuse_if_there)
    gate.set()
    with pytest.raises(LedgerFailed):
        doomed.result()
    assert second.result() is None
    ledger.close()


def test_the_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    ledger = open_ledger(url_of(tmp_path))
    write(ledger, submitted(a_job(1)))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    ledger.close()
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}
