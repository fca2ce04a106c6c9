"""GPU-hours come to whoever held them, and say what stood behind them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.means import Enforcement, Level
from corral.core.model.runs.run_history import AllocatedTime, UsageBy
from corral.features.accounting.gpu_hours import total, usage

WHOLE = Enforcement(Level.ENFORCED, Level.ENFORCED)
SLICED_TIME = Enforcement(Level.GUARDED, Level.ADVISORY)
LEVELS = st.none() | st.builds(Enforcement, st.sampled_from(Level), st.sampled_from([Level.ENFORCED, Level.ADVISORY]))
TIMES = st.lists(
    st.builds(
        AllocatedTime,
        *[st.sampled_from("abc")] * 3,
        st.sampled_from([None, None, "1g.10gb", "3g.40gb"]),
        LEVELS,
        st.integers(1, 10**9).map(float),
        st.integers(1, 100),
    )
)


def held(user: str, hours: float, behind: Enforcement | None, *, profile: str | None = None) -> AllocatedTime:
    return AllocatedTime(user, "vision", "night", profile, behind, hours * 3600, 1)


def test_hours_are_split_by_what_stood_behind_them() -> None:
    (alice,) = usage([held("alice", 8, WHOLE), held("alice", 3, SLICED_TIME), held("alice", 1, None)], UsageBy.USER)
    assert (alice.gpu_hours, alice.unrecorded_hours, alice.allocations) == (12, 1, 3)
    assert (alice.compute_enforced_hours, alice.compute_advisory_hours) == (8, 3)
    assert (alice.memory_enforced_hours, alice.memory_guarded_hours, alice.memory_advisory_hours) == (8, 3, 0)


def test_whoever_had_most_comes_first_and_equals_by_name() -> None:
    rows = usage([held("bob", 1, WHOLE), held("carol", 2, WHOLE), held("alice", 1, WHOLE)], UsageBy.USER)
    assert [row.name for row in rows] == ["carol", "alice", "bob"]


@pytest.mark.parametrize(
    ("by", "name"), [(UsageBy.USER, "alice"), (UsageBy.PROJECT, "vision"), (UsageBy.QUEUE, "night")]
)
def test_they_are_counted_together_as_is_asked(by: UsageBy, name: str) -> None:
    assert [row.name for row in usage([held("alice", 1, WHOLE)], by)] == [name]


def test_slices_are_no_gpus_and_are_told_by_their_profile() -> None:
    times = [held("alice", 2, WHOLE, profile="3g.40gb"), held("alice", 5, WHOLE, profile="1g.10gb")]
    (alice,) = usage([*times, held("alice", 1, WHOLE, profile="1g.10gb")], UsageBy.USER)
    assert (alice.gpu_hours, alice.compute_enforced_hours) == (0, 0)
    assert alice.slice_hours == {"1g.10gb": 6, "3g.40gb": 2}


def test_hours_that_were_for_nothing_are_told_and_are_among_the_others() -> None:
    lost = held("alice", 8, WHOLE)._replace(lost_gpu_s=2 * 3600.0)
    (alice,) = usage([lost, held("alice", 3, SLICED_TIME)], UsageBy.USER)
    assert (alice.gpu_hours, alice.lost_hours) == (11, 2)


def test_without_anything_held_there_is_no_row() -> None:
    assert (usage([], UsageBy.USER), total([]).gpu_hours) == ((), 0)


@given(TIMES, st.sampled_from(UsageBy))
def test_nothing_is_lost_or_counted_twice(times: list[AllocatedTime], by: UsageBy) -> None:
    rows, whole = usage(times, by), total(times)
    assert sum(row.gpu_hours for row in rows) == pytest.approx(whole.gpu_hours)
    assert sum(row.allocations for row in rows) == whole.allocations
    for row in (*rows, whole):
        compute = row.compute_enforced_hours + row.compute_advisory_hours
        memory = row.memory_enforced_hours + row.memory_guarded_hours + row.memory_advisory_hours
        assert compute + row.unrecorded_hours == pytest.approx(row.gpu_hours)
        assert memory + row.unrecorded_hours == pytest.approx(row.gpu_hours)
