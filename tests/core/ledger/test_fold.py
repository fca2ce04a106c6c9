"""The journal, folded, is the tables."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.core.ledger.fold import check, fold
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.errors import LedgerFailed
from corral.core.model.fact import (
    AllocationEnded,
    DeviceCordoned,
    DevicesExchanged,
    DeviceUncordoned,
    Fact,
    JobChanged,
    JobRequeued,
    JobSubmitted,
)
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Placement
from corral.core.model.view import View
from tests.core.ledger.making import a_job, ended, given_back, made, send, submitted, url_of, write

UUIDS = ("GPU-0", "GPU-1")
TEXT = st.text(max_size=5)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Fact, ...]]:
    """Operations, each a run of facts that may follow those before it."""
    view = View()
    known: dict[str, int] = {}
    operations: list[tuple[Fact, ...]] = []
    for _ in range(draw(st.integers(0, 8))):
        facts: list[Fact] = []
        for _ in range(draw(st.integers(0, 4))):
            fact = draw(facts_after(view.advance(facts), known))
            if isinstance(fact, JobSubmitted):
                known[fact.job.id] = fact.job.sequence
            facts.append(fact)
        view = view.advance(facts)
        operations.append(tuple(facts))
    return operations


def facts_after(view: View, known: dict[str, int]) -> st.SearchStrategy[Fact]:
    number = len(known) + 1
    new = st.builds(
        lambda name, env, waits_for, held: submitted(
            a_job(number, name=name, env=env, waits_for=waits_for, held=held, array_id="1", array_index=number)
        ),
        TEXT,
        st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
        st.lists(st.sampled_from(sorted(known)), unique=True).map(tuple) if known else st.just(()),
        st.booleans(),
    )
    choices: list[st.SearchStrategy[Fact]] = [
        new,
        st.builds(DeviceCordoned, st.sampled_from(UUIDS), TEXT, at=st.floats(0, 1e9), by=TEXT),
        st.builds(DeviceUncordoned, st.sampled_from(UUIDS), at=st.floats(0, 1e9), by=TEXT),
    ]
    if view.jobs:
        changes = st.fixed_dictionaries(
            {},
            optional={
                "phase": st.sampled_from(Phase),
                "reason": st.none() | TEXT,
                "exit_code": st.none() | st.integers(0, 255),
                "waits_for": st.just(()),
                "stop_reason": st.none() | st.just(Phase.CANCELLED),
                "waited": st.lists(st.tuples(TEXT, st.floats(0, 1e6)), max_size=2).map(tuple),
            },
        )
        job_ids = st.sampled_from(sorted(view.jobs))
        choices.append(st.builds(JobChanged, job_ids, changes, at=st.floats(0, 1e9), by=TEXT))
        again = st.builds(made, job_ids, st.sampled_from(UUIDS), st.integers(1, 3))
        choices.append(again.filter(lambda fact: fact.allocation.id not in view.allocations))
    over = sorted(set(known) - set(view.jobs))
    if over:
        choices.append(
            st.sampled_from(over).map(lambda job_id: JobRequeued(a_job(int(job_id), attempts=1), at=9.0, by="test"))
        )
    if view.allocations:
        choices.append(
            st.builds(
                lambda key, uuid: DevicesExchanged(with_device(view.allocations[key], uuid), at=5.0, by="test"),
                st.sampled_from(sorted(view.allocations)),
                st.sampled_from(UUIDS),
            )
        )
        held = st.sampled_from(sorted(view.allocations))
        choices.append(
            st.builds(
                lambda key, at: AllocationEnded(key, view.allocations[key].job_id, at=at, by="test"),
                held,
                st.floats(0, 1e9),
            )
        )
    return st.one_of(choices)


def with_device(allocation: Allocation, uuid: str) -> Allocation:
    (member,) = allocation.placement.members
    grants = tuple(replace(grant, uuid=uuid) for grant in member.grants)
    return replace(allocation, placement=Placement((replace(member, grants=grants),)))


def what_is(view: View) -> tuple[object, ...]:
    """A view without its version, and with those who wait for a job in no particular order."""
    dependants = {key: sorted(ids) for key, ids in view.dependants.items()}
    return view.jobs, view.allocations, view.holders, view.cordons, dependants


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_the_live_view_the_reopened_one_and_the_folded_journal_are_equal(operations: list[tuple[Fact, ...]]) -> None:
    with TemporaryDirectory(prefix="corral-") as home:
        url = url_of(Path(home))
        ledger = open_ledger(url)
        for future in [send(ledger, *facts) for facts in operations]:
            future.result()
        live, folded = ledger.view(), fold(ledger.journal()).view
        ledger.close()
        ledger = open_ledger(url)
        reopened = ledger.view()
        assert [entry.fact for entry in ledger.journal()] == [fact for facts in operations for fact in facts]
        ledger.close()
        assert check(url) == ()
    assert what_is(live) == what_is(folded) == what_is(reopened)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE jobs SET phase = 'RUNNING' WHERE id = '1'", "jobs id=1: phase is 'RUNNING' in the table, 'SUCCEEDED'"),
        ("DELETE FROM jobs WHERE id = '2'", "jobs id=2 is in the journal but not in the table"),
        ("UPDATE allocations SET ended_at = NULL", "allocations entry=3: ended_at is None in the table, 3000.0"),
        ("DELETE FROM journal WHERE sequence = 2", "journal entries 2 to 2 are missing"),
        (
            "INSERT INTO latest_facts VALUES ('cordon of device GPU-9', 2)",
            "latest_facts subject=cordon of device GPU-9 is in the table but not",
        ),
        (
            "UPDATE journal SET job_id = job_id, body = replace(body, '\"1\"', '\"5\"') WHERE sequence = 5",
            "does not follow",
        ),
    ],
)
def test_any_difference_is_told(ledger: SqlLedger, tmp_path: Path, damage: str, told: str) -> None:
    write(ledger, submitted(a_job(1)), submitted(a_job(2)), made("1"), given_back("1"), ended("1"))
    ledger.close()
    assert check(url_of(tmp_path)) == ()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw, raw:
        raw.execute(damage)
    assert any(told in difference for difference in check(url_of(tmp_path)))


def test_a_running_ledger_can_be_checked(ledger: SqlLedger, tmp_path: Path) -> None:
    futures = [send(ledger, submitted(a_job(number))) for number in range(1, 300)]
    assert check(url_of(tmp_path)) == ()
    for future in futures:
        future.result()


def test_nothing_to_check_is_said_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerFailed, match="there is no ledger"):
        check(url_of(tmp_path))
    assert list(tmp_path.iterdir()) == []
