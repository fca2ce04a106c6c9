"""Who is next among groups, queues and those who pause."""

from hypothesis import given
from hypothesis import strategies as st

from corral.model.job import Job
from corral.scheduling.order import ORDERS, Ranking, Standing
from corral.scheduling.waiting import Turns, Waiting
from tests.scheduling.lab import T0, job

NOW = Standing(T0)


def waiting(order: str, *jobs: Job) -> Waiting:
    found = Waiting(lambda _: Ranking(ORDERS[order]))
    for one in jobs:
        found.follow(one, NOW)
    found.wake(NOW)
    return found


def turns(lines: Waiting, *jobs: Job) -> Turns:
    return Turns(lines.lines, {one.id: one for one in jobs}, NOW, lambda _: 0.0)


def drained(some: Turns) -> list[str]:
    ids = []
    while (job_id := some.head()) is not None:
        ids.append(job_id)
        some.go_on()
    return ids


JOBS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.sampled_from("ab"), st.integers(1, 50)), max_size=15)


@given(JOBS, st.sampled_from(sorted(ORDERS)))
def test_turns_follow_the_order_whatever_the_groups(shapes: list[tuple[int, int, str, int]], order: str) -> None:
    jobs = [job(n, g, priority=p, user=u, time_limit_s=float(t)) for n, (g, p, u, t) in enumerate(shapes, start=1)]
    ranking = Ranking(ORDERS[order])
    in_order = sorted(jobs, key=lambda one: ranking.rank(one, NOW))
    assert drained(turns(waiting(order, *jobs), *jobs)) == [one.id for one in in_order]


def test_a_closed_group_has_no_more_turns() -> None:
    jobs = [job(1, 2), job(2, 2), job(3, 1), job(4, 2)]
    some = turns(waiting("fcfs", *jobs), *jobs)
    assert some.head() == "1"
    some.close_group()
    assert drained(some) == ["3"]


def test_a_closed_queue_has_no_more_turns() -> None:
    jobs = [job(1), job(2, queue="other"), job(3)]
    some = turns(waiting("fcfs", *jobs), *jobs)
    assert some.head() == "1"
    some.close_queue()
    assert drained(some) == ["2"]


def test_who_is_passed_by_leaves_the_next_of_the_group_its_turn() -> None:
    jobs = [job(1, 2), job(2, 2)]
    some = turns(waiting("fcfs", *jobs), *jobs)
    some.head()
    some.pass_by()
    assert (some.head(), some.position()) == ("2", 2)


def test_places_count_those_ahead_that_do_not_start() -> None:
    jobs = [job(1), job(2, 2), job(3)]
    some = turns(waiting("fcfs", *jobs), *jobs)
    some.head()
    some.go_on()
    assert (some.head(), some.position()) == ("2", 1)


def test_from_the_first_block_on_the_shortest_may_have_their_turns_first() -> None:
    jobs = [job(1, 4, time_limit_s=9), job(2, 1, time_limit_s=5), job(3, 1, time_limit_s=1), job(4, 2)]
    some = turns(waiting("fcfs", *jobs), *jobs)
    assert some.head() == "1"
    some.close_group()
    some.shortest_first("default")
    assert drained(some) == ["3", "2", "4"]


def test_who_pauses_joins_when_the_time_has_come_and_parts_when_the_clock_is_set_back() -> None:
    paused = job(1, eligible_at=T0 + 10)
    lines = waiting("fcfs", paused)
    assert drained(turns(lines, paused)) == []
    lines.wake(Standing(T0 + 10))
    assert drained(turns(lines, paused)) == ["1"]
    lines.wake(Standing(T0))
    assert drained(turns(lines, paused)) == []
