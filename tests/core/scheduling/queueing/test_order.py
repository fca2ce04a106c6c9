"""Which job goes before which."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from corral.core.model.jobs.job import Job
from corral.core.model.queues.queue import Project
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Policy
from corral.core.scheduling.queueing.order import (
    AGE_LIMIT_S,
    ORDERS,
    Order,
    OrderContext,
    Ranking,
    asked_gpus,
    service_level,
)
from tests.core.scheduling.lab import T0, box, ended, job, observed, started, started_ids, submitted


def in_order(name: str, *jobs: Job, now: float = T0, served_s: Callable[[Job], float] = lambda _: 0.0) -> list[str]:
    ranking, context = Ranking(ORDERS[name]), OrderContext(now, served_s=served_s)
    return [one.id for one in sorted(jobs, key=lambda one: ranking.rank(one, context))]


def test_first_come_first_served_and_priority_settle_ties_by_sequence() -> None:
    jobs = [job(3, priority=1), job(1, priority=9), job(2, priority=1)]
    assert in_order("fcfs", *jobs) == ["1", "2", "3"]
    assert in_order("priority", *jobs) == ["2", "3", "1"]


def test_under_ageing_a_day_of_waiting_is_a_step_of_priority() -> None:
    old = job(1, priority=6, submitted_at=T0 - 86_401)
    assert in_order("priority-ageing", old, job(2, priority=5, submitted_at=T0)) == ["1", "2"]
    assert in_order("priority-ageing", old, job(2, priority=4, submitted_at=T0)) == ["2", "1"]


def test_shortest_and_smallest_go_first_and_the_unknown_last() -> None:
    jobs = [job(1, 8), job(2, 8, time_limit_s=10), job(3, 1, time_limit_s=60)]
    assert in_order("sjf", *jobs) == ["2", "3", "1"]
    assert in_order("saf", *jobs) == ["3", "2", "1"]


def test_slowdown_weighs_run_time_more_than_size() -> None:
    long_and_narrow, short_and_wide = job(1, 1, time_limit_s=100), job(2, 3, time_limit_s=50)
    assert in_order("saf", long_and_narrow, short_and_wide) == ["1", "2"]
    assert in_order("slowdown", long_and_narrow, short_and_wide) == ["2", "1"]
    assert in_order("slowdown", job(1, time_limit_s=9), job(2, time_limit_s=1)) == ["1", "2"], "both count as 10 s"


def test_corral_puts_whoever_has_waited_for_eight_days_before_everybody() -> None:
    starved = job(2, 8, time_limit_s=90_000, submitted_at=T0 - AGE_LIMIT_S)
    young = job(1, 1, time_limit_s=10, submitted_at=T0)
    assert in_order("corral", young, starved) == ["2", "1"]
    assert in_order("corral", young, starved, now=T0 - AGE_LIMIT_S / 2) == ["1", "2"]


def test_corral_takes_a_job_without_estimate_to_last_as_it_has_been_served() -> None:
    served = {"1": 20 * 3600.0, "2": 0.0}
    jobs = [job(1), job(2), job(3, time_limit_s=1800.0)]
    assert in_order("corral", *jobs, served_s=lambda one: served.get(one.id, 0.0)) == ["3", "2", "1"]
    assert [service_level(hours * 3600.0) for hours in (0, 2.9, 3, 14.9, 15)] == [0, 0, 1, 1, 2]


def test_a_share_counts_as_its_part_and_a_cpu_job_by_its_cpus() -> None:
    assert asked_gpus(job(1, 2, share_milli=250)) == 0.5
    assert asked_gpus(job(1, 0, cpu_milli=16_000)) == 16
    assert asked_gpus(job(1, 2, gang_size=3)) == 6


@pytest.mark.parametrize("rank", [(math.nan,), ("a",), None, 3])
def test_a_rank_that_is_no_tuple_of_numbers_is_a_fault_and_counts_for_nothing(rank: object) -> None:
    ranking = Ranking(Order("odd", lambda *_: rank))  # type: ignore[arg-type]
    assert ranking.rank(job(7), OrderContext(T0)) == (7,)
    assert ranking.fault is not None
    assert "odd returned" in ranking.fault


def fair(view: View, now: float = T0) -> list[str]:
    return started_ids(Planner(view, policy=Policy(ORDERS["fair-share"])).plan(now))


def test_fair_share_starts_those_who_have_had_less() -> None:
    view = View().advance(observed(box(gpus=1)) + submitted(job(1, user="alice")))
    view = view.advance(started(Planner(view).plan(T0).starts[0])).advance(ended("1", at=T0 + 500))
    view = view.advance(submitted(job(2, user="alice"), job(3, user="bob")))
    assert fair(view, T0 + 500) == ["3"]


ALL_THE_MEMORY: dict[str, Any] = {"share_milli": 10, "share_of_memory": True, "memory_mib": 81_920}


def test_who_had_all_memory_of_a_device_had_the_device() -> None:
    view = View().advance(observed(box(gpus=1)) + submitted(job(1, user="alice", **ALL_THE_MEMORY)))
    view = view.advance(started(Planner(view).plan(T0).starts[0])).advance(ended("1", at=T0 + 500))
    view = view.advance(submitted(job(2, user="bob", share_milli=500)))
    view = view.advance(started(Planner(view).plan(T0 + 500).starts[0], at=T0 + 500, user="bob"))
    view = view.advance(ended("2", at=T0 + 1000)).advance(submitted(job(3, user="alice"), job(4, user="bob")))
    assert fair(view, T0 + 1000) == ["4"]


def test_fair_share_counts_what_is_held_as_it_was_granted() -> None:
    jobs = [job(n, user="alice", **ALL_THE_MEMORY) for n in (1, 2)]
    jobs += [job(n, user="bob", share_milli=500) for n in (3, 4)]
    view = View().advance(observed(box(gpus=4)) + submitted(*jobs))
    view = view.advance(started(next(s for s in Planner(view).plan(T0).starts if s.job_id == "1")))
    assert fair(view)[:3] == ["3", "4", "2"]


def test_a_job_that_takes_all_the_memory_is_no_smaller_than_one_that_takes_the_device() -> None:
    for order in ("saf", "slowdown", "corral"):
        jobs = [job(1, time_limit_s=90.0), job(2, time_limit_s=100.0, **ALL_THE_MEMORY)]
        view = View().advance(observed(box(gpus=1)) + submitted(*jobs))
        assert started_ids(Planner(view, policy=Policy(ORDERS[order])).plan(T0 + 10)) == ["1"]


@pytest.mark.parametrize("share_milli", [500, 1000])
def test_a_job_without_devices_and_without_an_estimate_has_a_rank_in_every_order(share_milli: int) -> None:
    for order in ORDERS.values():
        view = View().advance(observed(box()) + submitted(job(1, 0, share_milli=share_milli, cpu_milli=500)))
        assert Planner(view, policy=Policy(order)).plan(T0).faults == ()


def test_fair_share_hands_free_gpus_out_in_turn() -> None:
    jobs = [job(n, user="alice") for n in (1, 2, 3)] + [job(n, user="bob") for n in (4, 5, 6)]
    view = View().advance(observed(box(gpus=4)) + submitted(*jobs))
    assert fair(view) == ["1", "4", "2", "5"]


def test_usage_is_forgiven_with_time() -> None:
    view = View(usage_half_life_s=100).advance(
        observed(box(gpus=1)) + submitted(job(1, user="alice"), job(2, user="bob"))
    )
    for number, at, until in (("1", T0, T0 + 100), ("2", T0 + 900, T0 + 950)):
        start = next(s for s in Planner(view).plan(at).starts)
        assert start.job_id == number
        view = view.advance(started(start, at=at)).advance(ended(number, at=until))
    view = view.advance(submitted(job(3, user="bob"), job(4, user="alice")))
    assert fair(view, T0 + 950) == ["4"], "alice's 100 s are eight half-lives ago, bob's 50 s are fresh"


def test_projects_share_by_weight_before_their_users_do() -> None:
    view = View(projects={"big": Project("big", weight=3.0), "small": Project("small")})
    jobs = [job(n, project="small", user=f"s{n}") for n in (1, 2, 3)]
    jobs += [job(n, project="big", user="b") for n in (4, 5, 6)]
    view = view.advance(observed(box(gpus=4)) + submitted(*jobs))
    assert sorted(fair(view)) == ["1", "4", "5", "6"]


def test_users_of_a_project_share_its_part_by_weight() -> None:
    view = View(projects={"default": Project("default", user_weights=(("alice", 3.0),))})
    jobs = [job(n, user="bob") for n in (1, 2, 3)] + [job(n, user="alice") for n in (4, 5, 6)]
    view = view.advance(observed(box(gpus=4)) + submitted(*jobs))
    assert sorted(fair(view)) == ["1", "4", "5", "6"]
