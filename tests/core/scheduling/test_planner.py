"""What a plan promises, on one machine and on a few."""

import gc
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.devices.device import Device, DeviceCondition, HeldPart, HoldingPod
from corral.core.model.fact import (
    AllocationEnded,
    ConditionObserved,
    Delta,
    JobChanged,
    JobUpdated,
    SiteArranged,
    StartsPromised,
)
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.job_update import SpecPatch, values_before
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Grant, Member, Placement, Promise
from corral.core.model.placing.fit import Cause, Misfit, fit
from corral.core.model.placing.plan import Plan, WaitReason
from corral.core.model.placing.state import node_state
from corral.core.model.queues.queue import Limits, Queue, Quota
from corral.core.model.view import View
from corral.core.scheduling.placing.start_recheck import verify
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Policy
from corral.core.scheduling.queueing.order import FCFS
from corral.core.scheduling.state.timeline import Timeline
from tests.core.scheduling.lab import H100, T0, box, ended, idle, job, observed, started, started_ids, submitted


def planner_of(*deltas: list[Delta], limits: Limits | None = None) -> Planner:
    planner = Planner(limits=limits)
    for batch in deltas:
        planner.advance(batch)
    return planner


def hold_of(plan: Plan, number: int) -> tuple[WaitReason, int, str | None]:
    wait = next(wait for wait in plan.waits if wait.job_id == str(number))
    return wait.reason, wait.position, wait.behind


def test_jobs_start_in_the_order_they_came() -> None:
    plan = planner_of(observed(box(gpus=2)), submitted(job(2), job(1), job(3))).plan(T0)
    assert started_ids(plan) == ["1", "2"]
    assert hold_of(plan, 3) == (WaitReason.RESOURCES, 1, None)


def test_a_lower_priority_number_runs_first() -> None:
    plan = planner_of(observed(box(gpus=1)), submitted(job(1), job(2, priority=1))).plan(T0)
    assert started_ids(plan) == ["2"]


def test_fcfs_looks_at_no_priority() -> None:
    planner = Planner(policy=Policy(FCFS))
    planner.advance(observed(box(gpus=1)) + submitted(job(1), job(2, priority=1)))
    assert started_ids(planner.plan(T0)) == ["1"]


def test_a_blocked_head_keeps_the_devices_it_could_use() -> None:
    first = planner_of(observed(box(gpus=4)), submitted(job(1, 3)))
    first.advance(started(first.plan(T0).starts[0]))
    first.advance(submitted(job(2, 4), job(3, 1)))
    plan = first.plan(T0)
    assert started_ids(plan) == []
    assert hold_of(plan, 2) == (WaitReason.RESOURCES, 1, None)
    assert hold_of(plan, 3) == (WaitReason.PRIORITY, 2, "2")


def test_what_a_blocked_head_cannot_use_is_open_to_those_behind_it() -> None:
    busy = planner_of(observed(box("a", 2), box("h", 2, model=H100)), submitted(job(1, 1, models=("A100",))))
    busy.advance(started(busy.plan(T0).starts[0]))
    busy.advance(submitted(job(2, 2, models=("A100",)), job(3, 1)))
    plan = busy.plan(T0)
    assert started_ids(plan) == ["3"]
    assert plan.starts[0].placement.uuids == ("GPU-h-0",)


def test_a_cpu_job_is_not_kept_back_by_a_job_that_waits_for_gpus() -> None:
    plan = planner_of(observed(box(gpus=1)), submitted(job(1), job(2, 1), job(3, 0, cpu_milli=4000))).plan(T0)
    assert started_ids(plan) == ["1", "3"]


def test_a_large_cpu_job_is_not_starved_by_small_ones() -> None:
    planner = planner_of(observed(box(gpus=0, cpus=8)), submitted(job(1, 0, cpu_milli=6000)))
    planner.advance(started(planner.plan(T0).starts[0]))
    planner.advance(submitted(job(2, 0, cpu_milli=8000), job(3, 0, cpu_milli=1000)))
    assert started_ids(planner.plan(T0)) == []


def test_the_most_available_devices_are_taken() -> None:
    node = box(gpus=3)
    deltas = observed(node)
    deltas.append(idle(node.devices[0], utilization_pct=40))
    deltas.append(idle(node.devices[1], memory_free_mib=10_000))
    plan = planner_of(deltas, submitted(job(1))).plan(T0)
    assert plan.starts[0].placement.uuids == ("GPU-box-2",)


def test_named_devices_are_taken_and_no_others() -> None:
    plan = planner_of(observed(box()), submitted(job(1, 2, device_uuids=("GPU-box-6", "GPU-box-3")))).plan(T0)
    assert sorted(plan.starts[0].placement.uuids) == ["GPU-box-3", "GPU-box-6"]


def test_a_device_that_was_never_read_is_not_handed_out() -> None:
    planner = planner_of(observed(box(gpus=1))[:1], submitted(job(1)))
    plan = planner.plan(T0)
    assert started_ids(plan) == []
    misfit = plan.waits[0].misfit
    assert misfit is not None
    assert misfit.cause is Cause.UNREADABLE


def test_held_dependent_and_pausing_jobs_neither_start_nor_stand_in_the_way() -> None:
    waits = [job(1, held=True), job(2, waits_for=("9",)), job(3, eligible_at=T0 + 60)]
    planner = planner_of(observed(box(gpus=1)), submitted(*waits, job(4)))
    assert started_ids(planner.plan(T0)) == ["4"]
    assert started_ids(planner.plan(T0 + 61)) == ["3"]
    assert started_ids(planner.plan(T0)) == ["4"], "a clock that is set back takes nobody's backoff away"


def test_before_its_begin_time_a_job_neither_starts_nor_has_anything_kept_for_it() -> None:
    begins = job(1, 2, priority=0, begin_at=T0 + 60, eligible_at=T0 + 60)
    planner = planner_of(observed(box(gpus=2)), submitted(begins, job(2, time_limit_s=3600), job(3)))
    plan = planner.plan(T0)
    assert started_ids(plan) == ["2", "3"]
    assert (plan.future_starts, plan.waits) == ((), ())
    assert started_ids(planner.plan(T0 + 60)) == ["1"]


def test_an_array_runs_no_more_elements_than_its_limit() -> None:
    elements = [job(n, array_id="7", array_index=n, array_limit=2) for n in range(1, 5)]
    planner = planner_of(observed(box()), submitted(*elements, job(9)))
    plan = planner.plan(T0)
    assert started_ids(plan) == ["1", "2", "9"]
    assert hold_of(plan, 3)[0] is WaitReason.ARRAY_LIMIT
    for start in plan.starts:
        planner.advance(started(start))
    planner.advance(ended("1"))
    assert started_ids(planner.plan(T0)) == ["3"]


def test_the_sites_limit_on_running_jobs_counts_no_reservations() -> None:
    jobs = [job(1), job(2), job(3), job(4, kind=JobKind.RESERVE)]
    plan = planner_of(observed(box()), submitted(*jobs), limits=Limits(max_running_jobs=2)).plan(T0)
    assert started_ids(plan) == ["1", "2", "4"]
    wait = next(wait for wait in plan.waits if wait.job_id == "3")
    assert (wait.reason, wait.detail) == (WaitReason.LIMIT, "2 of at most 2 jobs run")


def test_shares_meet_on_a_device_before_a_fresh_one_is_opened() -> None:
    planner = planner_of(observed(box(gpus=2)), submitted(job(1, share_milli=500), job(2, share_milli=500)))
    plan = planner.plan(T0)
    assert {start.placement.uuids for start in plan.starts} == {("GPU-box-0",)}


def test_a_gang_starts_whole_or_holds_nothing() -> None:
    small, large = box("a", 2), box("b", 2)
    planner = planner_of(observed(small, large), submitted(job(1, 2, gang_size=3)))
    assert planner.plan(T0).starts == ()
    planner = planner_of(observed(small, large), submitted(job(1, 2, gang_size=2)))
    members = planner.plan(T0).starts[0].placement.members
    assert [member.node for member in members] == ["a", "b"]


def test_a_spread_gang_puts_each_member_on_a_node_of_its_own() -> None:
    planner = planner_of(observed(box("a"), box("b")), submitted(job(1, 1, gang_size=2, spread=True)))
    assert [m.node for m in planner.plan(T0).starts[0].placement.members] == ["a", "b"]
    planner = planner_of(observed(box("a")), submitted(job(1, 1, gang_size=2, spread=True)))
    assert planner.plan(T0).starts == ()


def test_jobs_that_avoid_each_other_do_not_meet_on_a_node() -> None:
    jobs = [job(1, name="db"), job(2, name="web", avoid_jobs=("db",))]
    plan = planner_of(observed(box("a"), box("b")), submitted(*jobs)).plan(T0)
    assert [start.placement.members[0].node for start in plan.starts] == ["a", "b"]


def test_a_plan_leaves_nothing_for_the_garbage_collector_to_find() -> None:
    planner = planner_of(observed(box(gpus=2)), submitted(job(1, 1, time_limit_s=60.0), job(2, 2), job(3, 1)))
    gc.collect()
    before = timelines()
    gc.disable()
    try:
        assert planner.plan(T0).starts
        assert timelines() == before
    finally:
        gc.enable()


def timelines() -> int:
    return sum(type(one) is Timeline for one in gc.get_objects())


def test_ten_thousand_waiting_jobs_of_one_shape_cost_one_look() -> None:
    planner = planner_of(observed(box(gpus=1)), submitted(*(job(n) for n in range(1, 10_001))))
    planner.advance(started(planner.plan(T0).starts[0]))
    assert [wait.job_id for wait in planner.plan(T0).waits] == ["2"]


PASSING = Limits(pass_unknown_limit_s=10.0, pass_unknown_until_s=10.0)


@dataclass
class World:
    """A planner beside the view that it should agree with."""

    planner: Planner = field(default_factory=lambda: Planner(limits=PASSING))
    view: View = field(default_factory=View)

    def tell(self, deltas: list[Delta]) -> None:
        self.planner.advance(deltas)
        self.view = self.view.advance(deltas)


REQUESTS = st.fixed_dictionaries(
    {
        "gpus": st.integers(0, 4),
        "share_milli": st.sampled_from([1000, 1000, 1000, 500, 300]),
        "cpu_milli": st.sampled_from([0, 0, 1000, 7000]),
        "priority": st.integers(1, 3),
        "user": st.sampled_from(["alice", "bob"]),
        "models": st.sampled_from([(), (), ("A100",), ("H100",)]),
        "gang_size": st.sampled_from([1, 1, 1, 2, 3]),
        "min_memory_mib": st.sampled_from([None, None, 60_000]),
        "held": st.booleans(),
    }
)
UPDATES: st.SearchStrategy[SpecPatch] = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.integers(1, 3),
        "time_limit_s": st.sampled_from([5.0, 50.0]),
        "name": st.sampled_from(["x", "y"]),
        "queue": st.sampled_from(["default", "night"]),
    },
)  # type: ignore[assignment]
NODES = [box("a", 3, cpus=8), box("b", 2, cpus=8), box("h", 2, model=H100, cpus=8)]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), REQUESTS),
        st.tuples(st.just("plan"), st.none()),
        st.tuples(st.just("end"), st.integers(0, 20)),
        st.tuples(st.just("trouble"), st.integers(0, 20)),
        st.tuples(st.just("release"), st.integers(0, 20)),
        st.tuples(st.just("update"), st.tuples(st.integers(0, 20), UPDATES)),
    ),
    max_size=25,
)


def run_steps(steps: list[tuple[str, object]]) -> World:
    world, number, at = World(), 0, T0
    world.tell(observed(*NODES))
    devices = [device for node in NODES for device in node.devices]
    for what, value in steps:
        at += 1
        jobs = sorted(world.view.jobs.values(), key=lambda one: one.sequence)
        if what == "submit":
            assert isinstance(value, dict)
            number += 1
            world.tell(submitted(job(number, **value)))
        elif what == "plan":
            plan = world.planner.plan(at)
            check(world, plan, at)
            for start in plan.starts:
                assert verify(world.view, start) is None
                world.tell(started(start, at=at))
        elif what == "end":
            assert isinstance(value, int)
            running = [one for one in jobs if one.phase is Phase.RUNNING]
            if running:
                world.tell(ended(running[value % len(running)].id, at))
        elif what == "trouble":
            assert isinstance(value, int)
            world.tell([trouble(devices[value % len(devices)], value)])
        elif what == "release":
            world.tell([JobChanged(one.id, {"held": False}, at=at, by="test") for one in jobs if one.held])
        elif what == "update" and jobs:
            assert isinstance(value, tuple)
            world.tell(updated(jobs[value[0] % len(jobs)], value[1], at))
    return world


def updated(one: Job, changes: SpecPatch, at: float = T0) -> list[Delta]:
    """The job has these values; its queue only where it waits."""
    allowed = {key: value for key, value in changes.items() if key != "queue" or one.phase is Phase.PENDING}
    new = cast(SpecPatch, allowed)
    return [JobUpdated(one.id, new, values_before(one.spec, new), at=at, by="alice")]


def trouble(device: Device, value: int) -> ConditionObserved:
    well = DeviceCondition(device.uuid, memory_free_mib=device.memory_mib, utilization_pct=value)
    part = HeldPart(HoldingPod("ml", "notebook-0"), 400 if value % 2 else 1000, 20_000)
    return ConditionObserved(
        replace(well, unhealthy="too hot" if value % 3 == 0 else None, parts=(part,) if value % 3 == 1 else ())
    )


def check(world: World, plan: Plan, now: float) -> None:
    cold = world.planner.with_view(world.view).plan(now)
    assert cold == plan, "a warm planner plans as a cold one that takes devices to be worth the same"
    assert world.planner.plan(now) == plan, "planning changes nothing"
    after = world.view
    for start in plan.starts:
        after = after.advance(started(start, at=now))
        for uuid in start.placement.uuids:
            taken = sum(part.share_milli for part in after.conditions[uuid].parts)
            assert after.allocated_milli(uuid) + taken <= 1000, "nothing that pods have is given to jobs"
    assert_not_overcommitted(after)
    assert_nobody_waits_without_reason(after, plan)


def assert_not_overcommitted(view: View) -> None:
    for node in view.nodes.values():
        for device in node.devices:
            assert view.allocated_milli(device.uuid) <= 1000
            assert view.allocated_mib(device.uuid) <= (device.memory_mib or 0)
        assert node_state(view, node.name).cpu_milli >= 0


def assert_nobody_waits_without_reason(after: View, plan: Plan) -> None:
    blocked = {wait.job_id for wait in plan.waits}
    waiting = [one for one in after.jobs.values() if one.phase is Phase.PENDING and not one.held]
    positions: Counter[str] = Counter()
    for one in sorted(waiting, key=lambda j: (j.spec.priority, j.sequence)):
        positions[one.spec.queue] += 1
        wait = next((wait for wait in plan.waits if wait.job_id == one.id), None)
        if wait is not None:
            assert wait.position == positions[one.spec.queue]
        if wait is not None and wait.reason is WaitReason.RESOURCES and one.spec.request.gang_size == 1:
            request = one.spec.request
            assert all(isinstance(fit(request, node_state(after, name)), Misfit) for name in after.nodes)
        if wait is not None and wait.reason is WaitReason.PRIORITY:
            assert wait.behind in blocked
            assert after.jobs[wait.behind].sequence != one.sequence


@settings(max_examples=60)
@given(STEPS)
def test_no_plan_overcommits_and_a_warm_planner_equals_a_cold_one(steps: list[tuple[str, object]]) -> None:
    run_steps(steps)


@settings(max_examples=25)
@given(st.lists(REQUESTS, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_a_plan_does_not_depend_on_the_order_in_which_jobs_became_known(requests, random) -> None:  # type: ignore[no-untyped-def]
    jobs: list[Job] = [job(n, **request) for n, request in enumerate(requests, start=1)]
    shuffled = list(jobs)
    random.shuffle(shuffled)
    plans = [planner_of(observed(*NODES), submitted(*some)).plan(T0) for some in (jobs, shuffled)]
    assert plans[0] == plans[1]


def test_a_planner_that_hears_of_new_queues_plans_as_one_that_begins_with_them() -> None:
    view = View().advance([*observed(box(gpus=4)), *submitted(job(1, 3), job(2, 4), job(3, 1, queue="night"))])
    warm = Planner(view)
    warm.plan(T0)
    arranged = SiteArranged(
        queues=(Queue("default", "sjf", backfill="conservative"), Queue("night", quota=Quota(devices=0))),
        limits=Limits(of_user=Quota(devices=3)),
    )
    warm.advance([arranged])
    cold = Planner(view.advance([arranged]))
    assert warm.plan(T0) == cold.plan(T0)
    assert {wait.job_id: wait.detail for wait in warm.plan(T0).waits} == {
        "2": "user alice uses 3 of at most 3 GPUs, and this job asks for 4 more",
        "3": "user alice uses 3 of at most 3 GPUs, and this job asks for 1 more",
    }


def test_a_job_that_goes_to_another_queue_waits_there_alone() -> None:
    planner = planner_of(observed(box(gpus=1)), submitted(job(1), job(2), job(3, queue="night")))
    planner.advance(updated(planner.view.jobs["2"], {"queue": "night", "priority": 1}))
    assert [planner.position(planner.view.jobs[one], T0) for one in ("1", "2", "3")] == [1, 1, 2]


def test_the_quota_that_a_job_used_is_free_again_though_it_waits_in_another_queue_by_then() -> None:
    day, night = Queue("day", quota=Quota(share_milli=1000)), Queue("night")
    planner = planner_of(observed(box()), [SiteArranged(queues=(day, night))], submitted(job(1, queue="day")))
    (start,) = planner.plan(T0).starts
    planner.advance(started(start))
    back: list[Delta] = [
        JobChanged("1", {"phase": Phase.STOPPING, "stop_reason": Phase.PENDING}, at=T0, by="test"),
        JobChanged("1", {"phase": Phase.PENDING, "allocation_id": None, "stop_reason": None}, at=T0, by="test"),
        AllocationEnded("1.1", "1", at=T0, by="test"),
    ]
    # In one batch, so that the planner sees the job in its new queue alone.
    planner.advance([*back, JobUpdated("1", {"queue": "night"}, {"queue": "day"}, at=T0, by="alice")])
    planner.advance(submitted(job(2, queue="day")))
    assert sorted(one.job_id for one in planner.plan(T0).starts) == ["1", "2"]


def test_what_runs_is_expected_to_end_by_its_new_time_limit() -> None:
    planner = planner_of(observed(box(gpus=1)), submitted(job(1, time_limit_s=1000), job(2)))
    planner.advance(started(planner.plan(T0).starts[0]))
    assert planner.plan(T0).future_starts[0].start_at == pytest.approx(T0 + 1000)
    planner.advance(updated(planner.view.jobs["1"], {"time_limit_s": 60.0}))
    assert planner.plan(T0).future_starts[0].start_at == pytest.approx(T0 + 60)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"time_limit_s": 50.0}, True),
        ({"priority": 1}, True),
        ({"time_limit_s": 500.0}, False),
        ({"priority": 9}, False),
        ({"queue": "night"}, False),
    ],
)
def test_a_job_keeps_its_promised_start_unless_it_asks_for_what_would_be_later(changes: SpecPatch, kept: bool) -> None:
    view = View().advance([*observed(box(gpus=1)), *submitted(job(1, time_limit_s=100))])
    placement = Placement((Member("box", (Grant("GPU-box-0", 1000),)),))
    view = view.advance([StartsPromised((Promise("1", placement, T0 + 5),))])
    after = view.advance(updated(view.jobs["1"], changes))
    assert ("1" in after.promises) is kept


def test_a_job_that_becomes_longer_delays_none_that_was_promised_a_start() -> None:
    patient = Queue("default", "fcfs", backfill="conservative")
    planner = planner_of(
        [SiteArranged(queues=(patient,))],
        observed(box(gpus=1)),
        submitted(*(job(number, time_limit_s=100) for number in (1, 2, 3))),
    )
    planner.advance(started(planner.plan(T0).starts[0]))
    before = planner.plan(T0).promises
    assert [(one.job_id, round(one.start_at - T0)) for one in before] == [("2", 100), ("3", 200)]
    planner.advance([StartsPromised(before), *updated(planner.view.jobs["2"], {"time_limit_s": 300.0})])
    after = {one.job_id: round(one.start_at - T0) for one in planner.plan(T0).promises}
    assert after["3"] <= 200
    assert after["2"] >= 200
