"""Backfill and promises: who may pass whom, and what is kept to whom."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.fact import StartsPromised
from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Grant, Member, Placement, Promise
from corral.core.model.placing.plan import Plan, WaitReason
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Backfill, BackfillOrder, Policy
from corral.core.scheduling.promising.backfill import promises_changed
from corral.core.scheduling.queueing.order import FCFS, ORDERS, Order
from corral.sim.engine import Engine, SimulatedWork, inventory
from tests.core.scheduling.lab import T0, box, job, observed, ran, started, started_ids, submitted, view_of

EASY = Policy(FCFS)
CONSERVATIVE = Policy(FCFS, Backfill.CONSERVATIVE)


def busy(*jobs: Job, gpus: int = 4) -> View:
    """A box on which these jobs run since T0."""
    view = view_of(observed(box(gpus=gpus)) + submitted(*jobs))
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    return view


def plan_of(view: View, policy: Policy = EASY, now: float = T0) -> Plan:
    return Planner(view, policy=policy).plan(now)


def test_the_head_is_promised_the_moment_at_which_enough_comes_back() -> None:
    view = busy(job(1, 3, time_limit_s=100)).advance(submitted(job(2, 4, time_limit_s=10)))
    plan = plan_of(view)
    assert [(one.job_id, one.start_at) for one in plan.future_starts] == [("2", T0 + 100)]
    assert plan.waits[0].expected_start == T0 + 100


def test_a_job_that_ends_before_the_heads_start_fills_the_gap() -> None:
    view = busy(job(1, 3, time_limit_s=100)).advance(
        submitted(job(2, 4, time_limit_s=10), job(3, 1, time_limit_s=100), job(4, 1, time_limit_s=1))
    )
    assert started_ids(plan_of(view)) == ["3"]


def test_one_that_would_delay_the_head_waits_and_is_told_for_whom() -> None:
    view = busy(job(1, 3, time_limit_s=100)).advance(submitted(job(2, 4, time_limit_s=10), job(3, 1, time_limit_s=101)))
    wait = plan_of(view).waits[1]
    assert (wait.reason, wait.behind) == (WaitReason.RESERVATION, "2")


def test_a_long_job_may_start_on_what_the_head_leaves_over() -> None:
    view = busy(job(1, 3, time_limit_s=100), gpus=5).advance(submitted(job(2, 4), job(3, 1), job(4, 1)))
    assert started_ids(plan_of(view)) == ["3"], "of five the head needs four"


def test_the_shortest_fill_in_first_where_the_policy_says_so() -> None:
    view = busy(job(1, 3, time_limit_s=100)).advance(
        submitted(job(2, 4, time_limit_s=10), job(3, 1, time_limit_s=90), job(4, 1, time_limit_s=20))
    )
    assert started_ids(plan_of(view)) == ["3"]
    assert started_ids(plan_of(view, replace(EASY, backfill_order=BackfillOrder.SJF))) == ["4"]


def test_conservative_backfill_promises_something_to_everybody() -> None:
    view = busy(job(1, 3, time_limit_s=100)).advance(
        submitted(job(2, 4, time_limit_s=10), job(3, 2, time_limit_s=50), job(4, 2, time_limit_s=50))
    )
    promised = [(one.job_id, one.start_at - T0) for one in plan_of(view, CONSERVATIVE).future_starts]
    assert promised == [("2", 100.0), ("3", 110.0), ("4", 110.0)]


def test_without_a_known_end_the_best_node_is_kept_and_others_are_open() -> None:
    view = view_of(observed(box("a", 2), box("b", 4)) + submitted(job(1, 2)))
    view = view.advance(started(plan_of(view).starts[0]))
    view = view.advance(submitted(job(2, 3), job(3, 1)))
    taken = started(plan_of(view).starts[0])
    view = view.advance(taken).advance(submitted(job(4, 2), job(5, 1)))
    plan = plan_of(view)
    assert plan.future_starts == ()
    assert plan.waits[0].reason is WaitReason.RESOURCES
    assert plan.waits[0].expected_start is None


def test_a_gang_gets_its_promise_over_several_nodes() -> None:
    view = view_of(observed(box("a", 2), box("b", 2)) + submitted(job(1, 2, time_limit_s=50), job(2, 2)))
    for start in plan_of(view).starts[:1]:
        view = view.advance(started(start))
    view = view.advance(submitted(job(3, 2, gang_size=2)))
    plan = Planner(view, policy=replace(EASY, order=Order("late first", lambda one, _: (-one.sequence,)))).plan(T0)
    assert [len(one.placement.members) for one in plan.future_starts] == [2]
    assert plan.future_starts[0].start_at == T0 + 50
    assert started_ids(plan) == [], "the other job has no limit, and the gang needs its node"


SHAPES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 30), st.floats(1.0, 4.0), st.integers(0, 40)), min_size=1, max_size=14
)


def simulated(
    shapes: list[tuple[int, int, float, int]], policy: Policy, *, exact: bool, cpus: bool = False
) -> tuple[list[SimulatedWork], Any]:
    """Jobs of (GPUs or CPUs, run time, limit as a multiple of it, arrival), and what each was told, plan by plan."""
    works = []
    for number, (gpus, run_s, factor, at) in enumerate(sorted(shapes, key=lambda one: one[3]), start=1):
        limit = float(run_s) if exact else run_s * factor
        size = {"gpus": 0, "cpu_milli": gpus * 1000} if cpus else {"gpus": gpus}
        works.append(SimulatedWork(job(number, **size, time_limit_s=limit, submitted_at=T0 + at), float(run_s)))
    planner = Planner(policy=policy)
    planner.advance(inventory([box(gpus=4, cpus=4)]))
    told: dict[str, list[float]] = {}

    def watch(_now: float, plan: Plan) -> None:
        for reserve in plan.future_starts:
            told.setdefault(reserve.job_id, []).append(reserve.start_at)

    Engine(planner, [watch]).run(works)
    return works, told


@settings(max_examples=50)
@given(SHAPES)
def test_with_exact_limits_a_conservative_promise_is_met_to_the_second(
    shapes: list[tuple[int, int, float, int]],
) -> None:
    works, told = simulated(shapes, CONSERVATIVE, exact=True, cpus=True)
    for work in works:
        assert all(at == pytest.approx(work.started_at) for at in told.get(work.job.id, []))


@settings(max_examples=100)
@given(SHAPES, st.sampled_from(["fcfs", "priority", "saf"]))
def test_with_generous_limits_no_conservative_promise_is_ever_put_off(
    shapes: list[tuple[int, int, float, int]], order: str
) -> None:
    works, told = simulated(shapes, replace(CONSERVATIVE, order=ORDERS[order]), exact=False)
    for work in works:
        promises = told.get(work.job.id, [])
        assert promises == sorted(promises, reverse=True)
        assert all((work.started_at or 0.0) <= at + 1e-6 for at in promises)


@settings(max_examples=50)
@given(SHAPES)
def test_under_easy_backfill_the_first_in_line_is_never_put_off(shapes: list[tuple[int, int, float, int]]) -> None:
    works, told = simulated(shapes, EASY, exact=False)
    for work in works:
        assert all((work.started_at or 0.0) <= at + 1e-6 for at in told.get(work.job.id, []))


@settings(max_examples=40)
@given(SHAPES, st.sampled_from(sorted(ORDERS)), st.sampled_from(list(Backfill)))
def test_every_job_runs_under_every_order_and_backfill(
    shapes: list[tuple[int, int, float, int]], order: str, backfill: Backfill
) -> None:
    works, _ = simulated(shapes, Policy(ORDERS[order], backfill), exact=False)
    assert all(work.ended_at is not None for work in works)


@pytest.mark.parametrize(
    "nonsense", [lambda one, _: one.nothing, lambda one, _: "first", lambda one, _: (float("nan"),)]
)
def test_an_order_that_fails_is_replaced_by_first_come_first_served(nonsense: Any) -> None:
    planner = Planner(policy=Policy(Order("site", nonsense)))
    planner.advance(observed(box(gpus=1)) + submitted(job(1), job(2, priority=1)))
    plan = planner.plan(T0)
    assert started_ids(plan) == ["1"]
    assert plan.faults[0].startswith("queue default: site ")
    assert plan.faults[0].endswith("; it is served first come, first served until the server is restarted")


def test_only_what_is_new_or_sooner_is_worth_telling() -> None:
    view = busy(job(1, 3, time_limit_s=100)).advance(submitted(job(2, 4, time_limit_s=10)))
    (promise,) = plan_of(view, CONSERVATIVE).promises
    before = {"2": promise}
    assert promises_changed({}, [promise])
    assert promises_changed(before, [])
    assert promises_changed(before, [replace(promise, start_at=promise.start_at - 10)])
    assert not promises_changed(before, [promise])
    assert not promises_changed(before, [replace(promise, start_at=promise.start_at + 10)]), (
        "a late promise moves with the clock"
    )


def test_easy_backfill_has_nothing_for_later_plans_to_keep() -> None:
    view = busy(job(1, 3, time_limit_s=100)).advance(submitted(job(2, 4, time_limit_s=10)))
    plan = plan_of(view, EASY)
    assert (len(plan.future_starts), plan.promises) == (1, ())


def test_no_start_is_predicted_on_devices_kept_for_a_job_without_an_end_in_sight() -> None:
    view = busy(job(1, 1), job(2, 3, time_limit_s=10)).advance(submitted(job(3, 4), job(4, 1, time_limit_s=5)))
    plan = plan_of(view, CONSERVATIVE, T0 + 1)
    assert [(wait.job_id, wait.expected_start) for wait in plan.waits] == [("3", None), ("4", None)]


def test_no_start_is_predicted_on_a_node_with_a_job_to_be_avoided() -> None:
    view = busy(job(1, 1, name="noisy", time_limit_s=100)).advance(submitted(job(2, 1, avoid_jobs=("noisy",))))
    (wait,) = plan_of(view).waits
    assert (wait.reason, wait.expected_start) == (WaitReason.RESOURCES, None)


def test_a_job_whose_estimate_is_over_still_has_its_devices() -> None:
    """By its history it should have ended this very moment; those behind a reservation must not see it gone."""
    short = job(1, 2, name="short")
    view = replace(busy(short, job(2, 2, time_limit_s=200)), durations=ran(short, 60.0))
    view = view.advance(submitted(job(3, 4, time_limit_s=10), job(4, 2, time_limit_s=10)))
    assert plan_of(view, now=T0 + 60).starts == ()


def test_a_gang_whose_time_has_come_gets_no_more_than_a_device_has() -> None:
    """Each of its members would fit on what is left, all of them do not."""
    view = busy(job(1, 1, share_milli=500), gpus=1)
    gang = job(2, 1, share_milli=300, gang_size=3, time_limit_s=10)
    member = Member("box", (Grant("GPU-box-0", 300, 24_576),))
    due = StartsPromised((Promise("2", Placement((member,) * 3), T0),))
    assert plan_of(view.advance([*submitted(gang), due]), CONSERVATIVE, T0 + 1).starts == ()


def test_a_gang_keeps_its_promise_where_a_search_from_the_start_would_miss_it() -> None:
    """Devices with least left are taken first, so that the second member would find one device where it needs two."""
    halves = [job(n, 1, share_milli=500, device_uuids=(f"GPU-box-{n - 1}",), time_limit_s=100) for n in (1, 2)]
    view = busy(*halves, job(3, 1, device_uuids=("GPU-box-2",), time_limit_s=50), gpus=3)
    gang = job(4, 2, share_milli=300, gang_size=2, time_limit_s=10)
    parts = [tuple(Grant(f"GPU-box-{i}", 300, 24_576) for i in pair) for pair in ((0, 2), (1, 2))]
    promised = Promise("4", Placement(tuple(Member("box", grants) for grants in parts)), T0 + 50)
    plan = plan_of(view.advance([*submitted(gang), StartsPromised((promised,))]), CONSERVATIVE, T0 + 1)
    assert plan.future_starts == (promised,)
