"""Courses beside each other: figures, steps over time, and which jobs moved."""

from hypothesis import given
from hypothesis import strategies as st

from corral.features.replays import courses
from corral.features.replays.answers import ReplayedRun
from corral.features.replays.courses import STEPS, Course, Use, in_steps, side_by_side
from tests.core.scheduling.lab import T0, job


def run(submitted_at: float, wait_s: float, ran_s: float = 10) -> ReplayedRun:
    return ReplayedRun(submitted_at + wait_s, submitted_at + wait_s + ran_s, wait_s)


JOBS = [job(number, submitted_at=T0, user="alice" if number < 3 else "bob") for number in range(1, 5)]


def course(name: str, *waits: float) -> Course:
    return Course(name, {one.id: run(T0, wait) for one, wait in zip(JOBS, waits, strict=True)})


def test_waits_are_told_by_nearest_rank_and_by_user() -> None:
    told = side_by_side(JOBS, [course("recorded", 0, 10, 20, 100)], since=T0, until=T0 + 200, gpus=2)
    (one,) = told.courses
    assert (one.jobs, one.mean_wait_s, one.median_wait_s, one.p90_wait_s, one.max_wait_s) == (4, 32.5, 10, 100, 100)
    assert (one.waits_s[0], one.waits_s[-1], one.makespan_s) == (0, 100, 110)
    assert [(group.name, group.jobs, group.mean_wait_s) for group in told.users] == [
        ("alice", 2, (5.0,)),
        ("bob", 2, (60.0,)),
    ]


def test_the_jobs_that_moved_furthest_from_the_first_policy_come_first() -> None:
    told = side_by_side(
        JOBS,
        [course("recorded", 9, 9, 9, 9), course("fcfs", 0, 10, 20, 100), course("sjf", 0, 30, 15, 0)],
        since=T0,
        until=T0 + 200,
        gpus=2,
    )
    assert told.base == 1
    assert [one.id for one in told.jobs] == ["4", "2", "3", "1"]
    alone = side_by_side(JOBS, [course("recorded", 9, 9, 9, 9), course("sjf", 9, 9, 9, 0)], since=T0, until=T0, gpus=2)
    assert (alone.base, [one.id for one in alone.jobs]) == (0, ["4"])


def test_of_many_that_moved_the_rest_is_counted() -> None:
    many = [job(number, submitted_at=T0) for number in range(1, 301)]
    first = Course("recorded", {one.id: run(T0, 500) for one in many})
    second = Course("sjf", {one.id: run(T0, one.sequence) for one in many})
    told = side_by_side(many, [first, second], since=T0, until=T0 + 1, gpus=1)
    assert len(told.jobs) == courses.MOST_GAINED
    assert told.left_out == 300 - courses.MOST_GAINED


def test_a_job_that_did_not_end_has_no_wait_and_is_counted_as_unfinished() -> None:
    one = Course("sjf", {"1": run(T0, 5), "2": ReplayedRun()})
    (told,) = side_by_side(JOBS[:2], [one], since=T0, until=T0 + 60, gpus=1).courses
    assert (told.jobs, told.unfinished, told.mean_wait_s) == (1, 1, 5)


def test_nothing_at_all_is_none_and_no_number() -> None:
    (told,) = side_by_side([], [Course("recorded")], since=T0, until=T0, gpus=0).courses
    assert (told.mean_wait_s, told.max_wait_s, told.makespan_s, told.utilization_pct, told.waits_s) == (
        *(None, None, None, None),
        (),
    )


def test_utilization_is_what_was_allocated_within_the_period() -> None:
    one = Course("recorded", uses=[Use(T0 - 50, T0 + 50, 2), Use(T0 + 50, T0 + 999, 1)])
    (told,) = side_by_side([], [one], since=T0, until=T0 + 100, gpus=2).courses
    assert told.utilization_pct == 75
    assert told.allocated[0] == 2


@given(
    st.lists(
        st.tuples(st.floats(-50, 400), st.floats(0, 400), st.sampled_from([0.5, 1.0, 3.0])).map(
            lambda one: (one[0], one[0] + one[1], one[2])
        ),
        max_size=8,
    )
)
def test_steps_add_up_to_what_the_stretches_are(stretches: list[tuple[float, float, float]]) -> None:
    steps = in_steps(stretches, 0.0, 1.0)
    whole = sum(height * max(0.0, min(end, STEPS) - max(start, 0.0)) for start, end, height in stretches)
    assert len(steps) == STEPS
    assert abs(sum(steps) - whole) < 0.001 * STEPS
