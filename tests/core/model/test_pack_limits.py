"""How many alike jobs may share a device, by how long they took alone and together."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.runs.packing import (
    LEAST_PEAKS,
    LEAST_RUNS,
    MOST_PACKED,
    PackedAttempt,
    PackLimit,
    granted_mib,
    is_run_time,
    pack_key,
    pack_limit,
    program_of,
    share_of,
    shared_by,
    user_of_key,
)
from corral.core.model.runs.prediction import VALUES_KEPT, JobGroup, PastValues
from corral.core.model.runs.run_history import PastRun
from corral.core.model.runs.shared_times import Sharer, beside_s, jobs_together, with_sharing
from corral.core.model.view import View
from tests.core.scheduling.lab import job

TRAIN = program_of(job(1, packable=True, name="a", command=("python", "train.py", "--seed=1")).spec)
assert TRAIN is not None


def past(**runs: float) -> PastValues:
    """A past in which LEAST_RUNS runs of so many together (`of_2=...`) took so long."""
    found = PastValues()
    for name, ran_s in runs.items():
        for _ in range(LEAST_RUNS):
            found = _plus(found, float(name.removeprefix("of_")), ran_s)
    return found


def _plus(found: PastValues, together: float, ran_s: float) -> PastValues:
    assert TRAIN is not None
    group = shared_by(TRAIN, together)
    return found if group is None else found.plus((group,), ran_s)


def limit(found: PastValues | None, most: int = 4, max_slowdown: float = 1.25) -> PackLimit:
    assert TRAIN is not None
    return pack_limit(found, TRAIN, most=most, max_slowdown=max_slowdown)


def test_a_program_that_nobody_knows_has_the_limit_of_the_site() -> None:
    assert limit(None) == PackLimit(4, will_compare=True)


def test_runs_that_are_little_slower_together_change_nothing() -> None:
    assert limit(past(of_1=10, of_2=11, of_4=12)) == PackLimit(4, 4, 1.2)


def test_the_limit_is_below_the_first_number_that_slows_too_much() -> None:
    assert limit(past(of_1=10, of_2=11, of_3=13, of_4=20)) == PackLimit(2, 3, 1.3, too_slow=True)
    assert limit(past(of_1=10, of_2=40)) == PackLimit(1, 2, 4.0, too_slow=True)


def test_runs_of_different_numbers_are_counted_together_until_they_are_enough() -> None:
    found = past(of_1=10)
    for together, runs in ((4.0, 4), (3.0, LEAST_RUNS - 4), (2.0, LEAST_RUNS - 1)):
        for _ in range(runs):
            found = _plus(found, together, 20.0)
    assert limit(found) == PackLimit(2, 3, 2.0, too_slow=True)


def test_a_slowdown_that_the_site_allows_is_none() -> None:
    assert limit(past(of_1=10, of_2=18), max_slowdown=2.0).jobs == 4


def test_jobs_run_alone_for_a_while_if_only_runs_together_are_known() -> None:
    assert limit(past(of_4=20)) == PackLimit(1, compares=True)
    assert limit(past(of_4=20, of_1=10)).jobs == 3


def test_too_few_runs_say_nothing() -> None:
    found = past(of_1=10)
    for _ in range(LEAST_RUNS - 1):
        found = _plus(found, 4.0, 100.0)
    assert limit(found).jobs == 4


def test_one_odd_run_does_not_decide() -> None:
    assert limit(_plus(past(of_1=10, of_2=11), 2.0, 10_000.0)).jobs == 4


def test_a_site_that_packs_nothing_packs_nothing() -> None:
    assert limit(past(of_1=10, of_2=1), most=1) == PackLimit(1)


RUNS = st.lists(st.tuples(st.floats(0.5, 40), st.floats(0.001, 1e6)), max_size=60)


@given(RUNS, st.integers(1, MOST_PACKED), st.floats(1, 4))
def test_no_past_lets_more_share_a_device_than_the_site(
    runs: list[tuple[float, float]], most: int, max_slowdown: float
) -> None:
    found = PastValues()
    for together, ran_s in runs:
        found = _plus(found, together, ran_s)
    assert 1 <= limit(found, most, max_slowdown).jobs <= most
    assert share_of(limit(found, most, max_slowdown).jobs) * limit(found, most, max_slowdown).jobs <= 1000


@given(RUNS, st.integers(2, 4))
def test_whatever_was_before_so_many_that_are_slow_together_are_no_longer_together(
    runs: list[tuple[float, float]], jobs: int
) -> None:
    found = past(of_1=10)
    for together, ran_s in runs:
        found = _plus(found, together, ran_s)
    for _ in range(VALUES_KEPT):
        found = _plus(found, float(jobs), 1e9)
    assert limit(found).jobs < jobs


@pytest.mark.parametrize("ran_s", [0.0, -1.0, nan, inf, -inf])
def test_times_that_cannot_be_are_no_run_times(ran_s: float) -> None:
    assert not is_run_time(ran_s)


@given(RUNS, st.sampled_from([None, 0.0, -1.0, nan, inf, -inf]), st.integers(1, 3))
def test_a_run_without_a_time_moves_no_limit(runs: list[tuple[float, float]], ran_s: float | None, beside: int) -> None:
    assert TRAIN is not None
    found = PastValues()
    for together, value in runs:
        found = _plus(found, together, value)
    odd = [
        PastRun("ann", "p", "q", (TRAIN,), 0.0, 0.0, 9.0, ran_s, packed=PackedAttempt(TRAIN, "GPU-0"))
        for _ in range(LEAST_RUNS * beside)
    ]
    assert limit(View(packed={"ann": found}).remembering(odd).packed["ann"]) == limit(found)


@pytest.mark.parametrize("together", [0.0, 0.99, -3.0, nan, inf, 1.2, 1.49, 1000.0])
def test_a_run_that_was_neither_alone_nor_one_of_several_is_compared_with_none(together: float) -> None:
    assert TRAIN is not None
    assert shared_by(TRAIN, together) is None


def test_memory_is_known_after_some_runs_and_leaves_room() -> None:
    assert granted_mib([1000.0] * (LEAST_PEAKS - 1)) is None
    assert granted_mib([900.0, 1000.0, 800.0]) == 1200
    assert granted_mib([nan, 0.0, -5.0, 1000.0, 1000.0]) is None


def test_numbers_do_not_tell_programs_apart_but_words_and_users_do() -> None:
    same = program_of(job(2, packable=True, name="b", command=("python", "train.py", "--seed=2")).spec)
    other = program_of(job(3, packable=True, name="b", command=("python", "eval.py", "--seed=2")).spec)
    assert TRAIN is not None
    assert other is not None
    assert same == TRAIN
    assert len({pack_key("ann", TRAIN, 2), pack_key("bob", TRAIN, 2), pack_key("ann", other, 2)}) == 3
    assert pack_key("ann", TRAIN, 2) != pack_key("ann", TRAIN, 3)
    assert user_of_key(pack_key("ann b", TRAIN, 2)) == "ann b"
    assert user_of_key("ann") is None
    assert program_of(job(4, name="b").spec) is None


def test_the_jobs_on_a_device_are_counted_over_the_time_of_each() -> None:
    assert jobs_together([(0, 10), (0, 10)]) == [2.0, 2.0]
    assert jobs_together([(0, 10), (5, 10), (20, 30)]) == [1.5, 2.0, 1.0]
    assert jobs_together([(3, 3)]) == [1.0]


SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), min_size=1, max_size=8)


@given(SPANS, SPANS)
def test_a_server_that_starts_counts_as_one_that_ran_on(
    ended: list[tuple[int, int]], held: list[tuple[int, int]]
) -> None:
    assert TRAIN is not None
    runs = [
        PastRun("ann", "p", "q", (), 0.0, since, since + lasts, packed=PackedAttempt(TRAIN, "GPU-0"))
        for since, lasts in ended
    ]
    last = max(run.ended_at for run in runs)
    holders = [Sharer(str(index), "GPU-0", float(since)) for index, (since, _) in enumerate(held)]
    for run, found in zip(runs, with_sharing(runs, holders), strict=True):
        others = [(one.created_at, one.ended_at) for one in runs if one is not run]
        others += [(one.since, last) for one in holders]
        both_s = sum(max(0.0, min(run.ended_at, end) - max(run.created_at, start)) for start, end in others)
        assert found.packed is not None
        assert found.packed.together == pytest.approx(1 + both_s / (run.ended_at - run.created_at))
    for holder in holders:
        assert beside_s(holder, runs) == sum(max(0.0, run.ended_at - max(run.created_at, holder.since)) for run in runs)


def test_other_jobs_are_not_counted() -> None:
    run = PastRun("ann", "p", "q", (JobGroup(TRAIN.alike),) if TRAIN else (), 1.0, 0.0, 9.0)
    assert with_sharing([run], [Sharer("1", "GPU-0", 0.0)]) == [run]
