"""What the past of a user says of the next job: only jobs that were like it count, and of few nothing is told."""

import random
import tracemalloc
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.jobs.job import JobSpec, Request
from corral.core.model.runs.prediction import (
    GROUPS_KEPT,
    LEAST_VALUES,
    USERS_KEPT,
    VALUES_KEPT,
    Alike,
    PastValues,
    groups_of,
    remember,
)

TRAIN = JobSpec("alice", ("python", "train.py", "--seed", "1", "--lr=0.01", "--config", "c4"), name="train.py")


def past_of(spec: JobSpec, *values: float) -> PastValues:
    past = PastValues()
    for value in values:
        past = past.plus(groups_of(spec), value)
    return past


def test_of_eight_jobs_nothing_is_told_and_of_nine_the_median_and_the_most() -> None:
    eight = past_of(TRAIN, *range(1, LEAST_VALUES))
    assert eight.predict(groups_of(TRAIN)) is None
    told = eight.plus(groups_of(TRAIN), 100.0).predict(groups_of(TRAIN))
    assert told == (Alike.COMMAND, 9, 5.0, 100.0, 100.0)


def test_numbers_of_a_command_do_not_tell_jobs_apart_and_its_words_do() -> None:
    past = past_of(TRAIN, *[10.0] * 9)
    seeded = replace(TRAIN, command=("python", "train.py", "--seed", "2.5e3", "--lr=1", "--config", "c4"))
    other = replace(TRAIN, command=("python", "train.py", "--seed", "2", "--lr=1", "--config", "c5"))
    told = [past.predict(groups_of(spec)) for spec in (seeded, other)]
    assert [one and one.alike for one in told] == [Alike.COMMAND, Alike.NAME]


def test_names_that_never_come_again_leave_the_command() -> None:
    past = PastValues()
    for number in range(9):
        past = past.plus(groups_of(replace(TRAIN, name=f"run-{number}")), 10.0)
    told = past.predict(groups_of(replace(TRAIN, name="run-x")))
    assert told is not None
    assert told.alike is Alike.COMMAND


@pytest.mark.parametrize("request_", [Request(devices=2), Request(models=("H100",)), Request(share_milli=500)])
def test_jobs_with_other_gpus_are_alike_only_in_their_user(request_: Request) -> None:
    told = past_of(TRAIN, *[10.0] * 9).predict(groups_of(replace(TRAIN, request=request_)))
    assert told is not None
    assert told.alike is Alike.USER


def test_only_the_last_values_count() -> None:
    past = past_of(TRAIN, *[1000.0] * 100, *[10.0] * VALUES_KEPT)
    told = past.predict(groups_of(TRAIN))
    assert told is not None
    assert (told.jobs, told.most) == (VALUES_KEPT, 10.0)


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1e9), min_size=9, max_size=60))
def test_the_median_is_at_most_the_p90_and_that_at_most_the_most(values: list[float]) -> None:
    told = past_of(TRAIN, *values).predict(groups_of(TRAIN))
    assert told is not None
    assert min(values) <= told.median <= told.p90 <= told.most <= max(values)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_jobs_drawn_alike_about_nine_of_ten_do_not_exceed_the_p90(seed: int) -> None:
    past, kept, draw = PastValues(), [], random.Random(seed)
    for _ in range(1500):
        value = draw.lognormvariate(0, 1)
        told = past.predict(groups_of(TRAIN))
        if told is not None:
            kept.append(value <= told.p90)
        past = past.plus(groups_of(TRAIN), value)
    assert 0.87 < fmean(kept) < 0.97


def test_what_hostile_users_have_remembered_is_bounded() -> None:
    past: dict[str, PastValues] = {}
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(300):
        word = f"{number}" + "x" * 20_000
        spec = JobSpec("mallory", (word,) * 3, name=word[:200], request=Request(models=(word,)))
        remember(past, spec.user, groups_of(spec), 1.0)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(past["mallory"].of_groups) <= GROUPS_KEPT
    # Of each text 256 characters are kept, also of those that were asked about last.
    assert grown < 2 * 2**20


def test_users_beyond_the_bound_are_forgotten_who_ran_longest_ago_first() -> None:
    past: dict[str, PastValues] = {}
    for number in range(USERS_KEPT + 3):
        remember(past, f"user{number}", groups_of(TRAIN), 1.0)
        remember(past, "always", groups_of(TRAIN), 1.0)
    assert len(past) == USERS_KEPT
    assert "always" in past
    assert "user0" not in past


def test_a_command_without_words_and_a_name_without_letters_are_no_fault() -> None:
    for command in ((), ("",), ("=", "--x=", "-", "\udcff")):
        spec = JobSpec("alice", command, name="\udcff")
        told = past_of(spec, 1.0).predict(groups_of(spec), least=1)
        assert told is not None
        assert told.alike is Alike.COMMAND
