"""Who is next among groups, queues and those who pause."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.jobs.job import Job
from corral.core.scheduling.queueing.order import ORDERS, Order, OrderContext, Rank, Ranking, fair_share
from corral.core.scheduling.queueing.waiting import Turns, WaitingJobs
from tests.core.scheduling.lab import T0, job

NOW = OrderContext(T0)


def waiting(order: str, *jobs: Job) -> WaitingJobs:
    found = WaitingJobs(lambda _: Ranking(ORDERS[order]))
    for one in jobs:
        found.follow(one, NOW)
    found.wake(NOW)
    return found


def turns(lines: WaitingJobs, *jobs: Job) -> Turns:
    return Turns(lines.queues, {one.id: one for one in jobs}, NOW, lambda _: 0.0)


def drained(some: Turns) -> list[str]:
    ids = []
    while (job_id := some.head()) is not None:
        ids.append(job_id)
        some.head_started()
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
    some.skip_group()
    assert drained(some) == ["3"]


def test_a_closed_queue_has_no_more_turns() -> None:
    jobs = [job(1), job(2, queue="other"), job(3)]
    some = turns(waiting("fcfs", *jobs), *jobs)
    assert some.head() == "1"
    some.skip_queue()
    assert drained(some) == ["2"]


def test_who_is_passed_by_leaves_the_next_of_the_group_its_turn() -> None:
    jobs = [job(1, 2), job(2, 2)]
    some = turns(waiting("fcfs", *jobs), *jobs)
    some.head()
    some.skip_head()
    assert (some.head(), some.position()) == ("2", 2)


def test_places_count_those_ahead_that_do_not_start() -> None:
    jobs = [job(1), job(2, 2), job(3)]
    some = turns(waiting("fcfs", *jobs), *jobs)
    some.head()
    some.head_started()
    assert (some.head(), some.position()) == ("2", 1)


def test_from_the_first_block_on_the_shortest_may_have_their_turns_first() -> None:
    jobs = [job(1, 4, time_limit_s=9), job(2, 1, time_limit_s=5), job(3, 1, time_limit_s=1), job(4, 2)]
    some = turns(waiting("fcfs", *jobs), *jobs)
    assert some.head() == "1"
    some.skip_group()
    some.shortest_first("default")
    assert drained(some) == ["3", "2", "4"]


def test_who_pauses_joins_when_the_time_has_come_and_parts_when_the_clock_is_set_back() -> None:
    paused = job(1, eligible_at=T0 + 10)
    lines = waiting("fcfs", paused)
    assert drained(turns(lines, paused)) == []
    lines.wake(OrderContext(T0 + 10))
    assert drained(turns(lines, paused)) == ["1"]
    lines.wake(OrderContext(T0))
    assert drained(turns(lines, paused)) == []


PAUSES = st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=1, max_size=8)


@given(PAUSES, st.lists(st.integers(0, 7), min_size=1, max_size=6), st.data())
def test_however_the_clock_goes_those_are_in_line_whose_time_has_come(
    pauses: list[int | None], moments: list[int], data: st.DataObject
) -> None:
    jobs = {str(n): job(n, eligible_at=None if at is None else T0 + at) for n, at in enumerate(pauses, start=1)}
    lines = waiting("fcfs", *jobs.values())
    for moment in moments:
        changed = data.draw(st.sampled_from(sorted(jobs)))
        pause = data.draw(st.one_of(st.none(), st.integers(0, 6)))
        jobs[changed] = replace(jobs[changed], eligible_at=None if pause is None else T0 + pause)
        lines.follow(jobs[changed], NOW)
        lines.wake(OrderContext(T0 + moment))
        due = {one.id for one in jobs.values() if (one.eligible_at or 0) <= T0 + moment}
        assert {place[1] for place in lines.queue_named("default").places} == due


class Shares:
    """What projects and users have had: one more for each start."""

    def __init__(self) -> None:
        self._had: Counter[str | tuple[str, str]] = Counter()

    def over_use(self, one: Job) -> Rank:
        project, user = one.spec.project, one.spec.user
        return float(self._had[project]), float(self._had[project, user])

    def started(self, one: Job) -> None:
        self._had.update([one.spec.project, (one.spec.project, one.spec.user)])


MEMBERS = st.lists(
    st.tuples(st.sampled_from("pq"), st.sampled_from("abc"), st.integers(1, 3), st.integers(1, 3)), max_size=25
)


@given(MEMBERS, st.lists(st.booleans(), min_size=25, max_size=25), st.integers(0, 25))
def test_shares_move_with_every_start_as_if_everybody_were_ranked_anew(
    drawn: list[tuple[str, str, int, int]], starts: list[bool], sooner_at: int
) -> None:
    jobs = {
        str(n): job(n, g, project=p, user=u, priority=o, time_limit_s=float(g + o))
        for n, (p, u, g, o) in enumerate(drawn, start=1)
    }
    shares, left = Shares(), dict(jobs)
    context = replace(NOW, over_use=shares.over_use)
    some = Turns(waiting("fair-share", *jobs.values()).queues, jobs, context, lambda _: 0.0)
    ranking = Ranking(ORDERS["fair-share"])
    for step, starts_now in enumerate(starts):
        sooner = step > sooner_at
        if sooner and left:
            some.shortest_first("default")
        anew = sorted(left.values(), key=lambda one: ((one.spec.time_limit_s,) * sooner, ranking.rank(one, context)))
        assert some.head() == (anew[0].id if anew else None)
        if not anew:
            return
        del left[anew[0].id]
        if starts_now:
            shares.started(anew[0])
            some.head_started()
        else:
            some.skip_head()


def test_a_start_under_fair_share_does_not_rank_everybody_anew() -> None:
    ranked = 0

    def counted(one: Job, context: OrderContext) -> Rank:
        nonlocal ranked
        ranked += 1
        return fair_share(one, context)

    jobs = {str(n): job(n, user=f"user-{n % 20}", name=f"job-{n}") for n in range(1, 401)}
    lines = WaitingJobs(lambda _: Ranking(Order("counted", counted, alike=True)))
    for one in jobs.values():
        lines.follow(one, NOW)
    shares, before = Shares(), ranked
    some = Turns(lines.queues, jobs, replace(NOW, over_use=shares.over_use), lambda _: 0.0)
    for _ in range(200):
        head = some.head()
        assert head is not None
        shares.started(jobs[head])
        some.head_started()
    assert ranked - before < 400 + 200 * 10
