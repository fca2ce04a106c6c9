"""A period is a week until now, unless it is said; nothing of it is yet to come."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.control.querying.wall_times import DEFAULT_PERIOD_S
from corral.core.ledger.store import open_ledger
from corral.core.model.errors import Refused
from corral.core.model.fact import AllocationMade, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.runs.run_history import UsageBy
from corral.core.ports.ledger import Decided
from corral.features.accounting.accounts import Accounts

NOW = 1_700_000_000.0
HOUR_S = 3600.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def accounts(tmp_path: Path, clock: ManualClock) -> Iterator[Accounts]:
    """Half a GPU has been held for two hours, and is held."""
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    job = Job("1", 1, JobSpec(user="alice"), 0.0)
    placement = Placement((Member("n", (Grant("GPU-0", 500),)),))
    made = Allocation("1.1", "1", "alice", placement, NOW - 2 * HOUR_S)
    ledger.commit(
        lambda _: Decided((JobSubmitted(job, at=0.0, by="alice"), AllocationMade(made, at=0.0, by="test")), None)
    ).result()
    yield Accounts(ledger, clock)
    ledger.close()


def test_without_a_period_it_is_the_week_until_now_and_a_live_allocation_counts_as_far_as_it_has_come(
    accounts: Accounts,
) -> None:
    told = accounts.usage(UsageBy.USER)
    assert (told.by, told.since, told.until) == ("user", NOW - DEFAULT_PERIOD_S, NOW)
    assert [(row.name, row.gpu_hours) for row in told.rows] == [("alice", 1.0)]
    assert told.total.gpu_hours == 1.0


def test_a_period_that_reaches_into_the_future_ends_now(accounts: Accounts) -> None:
    told = accounts.usage(UsageBy.QUEUE, since=NOW - HOUR_S, until=NOW + HOUR_S)
    assert (told.until, told.total.gpu_hours) == (NOW, 0.5)


def test_a_period_is_asked_for_and_told_by_the_wall_clock(accounts: Accounts, clock: ManualClock) -> None:
    clock.step(86_400)
    there = NOW + 86_400
    told = accounts.usage(UsageBy.USER, since=there - HOUR_S)
    assert (told.since, told.until, told.total.gpu_hours) == (there - HOUR_S, there, 0.5)


@pytest.mark.parametrize(("since", "until"), [(NOW, NOW), (NOW + 1, None), (NOW - 5, NOW - 10)])
def test_a_period_without_a_length_is_refused(accounts: Accounts, since: float, until: float | None) -> None:
    with pytest.raises(Refused, match="is empty") as refused:
        accounts.usage(UsageBy.USER, since=since, until=until)
    assert refused.value.field == "since"
