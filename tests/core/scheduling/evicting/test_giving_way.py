"""Who is least urgent is looked up at most once a cycle, of all jobs and by scope."""

from collections.abc import Callable

from corral.core.model.jobs.job import Job
from corral.core.model.queues.quota import SITE, Scope, scopes_of
from corral.core.scheduling.evicting.giving_way import LeastUrgent
from corral.core.scheduling.evicting.victims import Running
from tests.core.ledger.making import made
from tests.core.scheduling.lab import job


def counted(*jobs: Job) -> tuple[LeastUrgent, list[int]]:
    looks: list[int] = []

    def running() -> list[Running]:
        looks.append(len(jobs))
        return [Running(one, made(one.id).allocation, 0.0) for one in jobs]

    find: Callable[[Job], tuple[Scope, ...]] = lambda one: tuple(scopes_of(one, {}))  # noqa: E731
    return LeastUrgent(running, find), looks


def test_each_scope_has_the_least_urgent_of_the_jobs_that_count_to_it() -> None:
    least, looks = counted(job(1, 1, priority=3), job(2, 1, user="bob", priority=7), job(3, 1, priority=5))
    for _ in range(3):
        assert least.of_all == 7
    assert len(looks) == 1, "nobody is looked at closely before that is asked for"
    for _ in range(3):
        assert least.by_scope[SITE] == 7
        assert least.by_scope[Scope("user", "bob")] == 7
        assert least.by_scope[Scope("user", "alice")] == 5
        assert Scope("user", "carol") not in least.by_scope
    assert len(looks) == 2


def test_where_nothing_runs_nobody_is_less_urgent_and_that_is_looked_up_once_too() -> None:
    least, looks = counted()
    for _ in range(3):
        assert least.of_all is None
        assert least.by_scope == {}
    assert len(looks) == 2
