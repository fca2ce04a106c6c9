"""Packable jobs of one user and program share a device, and nobody else joins them."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.core.lifecycle.starting import start_at_once
from corral.core.model.devices.device import Node
from corral.core.model.devices.means import ClientLimits, Means
from corral.core.model.fact import AllocationEnded, JobChanged, MemoryPeaksObserved, SiteArranged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.plan import Plan, Start
from corral.core.model.queues.queue import Limits, Quota
from corral.core.model.runs.packing import LEAST_RUNS, program_of
from corral.core.model.runs.prediction import PastValues
from corral.core.model.view import View
from corral.core.scheduling.explaining.packed_words import packing_clause
from corral.core.scheduling.placing.start_recheck import verify
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.state.packed_request import request_of
from corral.sim.engine import Engine, SimulatedWork
from tests.core.scheduling.lab import T0, box, job, observed, started_ids, submitted

GIB = 1024


def packable(number: int, memory_gib: int = 4, **options: Any) -> Job:
    """A packable job with this much memory, as `--packable --gpu-mem 4G` makes it."""
    options = {"name": "train", "command": ("python", "train.py", f"--seed={number}"), **options}
    share = {"share_milli": 10, "share_of_memory": True, "memory_mib": memory_gib * GIB}
    return job(number, packable=True, **share, **options)


def site(*nodes: Node, most: int = 4, slowdown: float = 1.25, **limits: Any) -> View:
    found = View().advance(observed(*(nodes or (box(gpus=2),))))
    return found.advance([SiteArranged(limits=Limits(pack_jobs=most, pack_slowdown=slowdown, **limits))])


def start_all(view: View, at: float = T0) -> tuple[View, Plan]:
    plan = Planner(view).plan(at)
    for start in plan.starts:
        assert verify(view, start) is None
        view = view.advance(start_at_once(view, view.jobs[start.job_id], start.placement, by="test", at=at))
    return view, plan


def end(view: View, job_id: str, at: float, phase: Phase = Phase.SUCCEEDED) -> View:
    allocation = view.jobs[job_id].allocation_id
    return view.advance(
        [
            JobChanged(job_id, {"phase": phase, "ended_at": at, "allocation_id": None}, at=at, by="test"),
            AllocationEnded(allocation or "", job_id, at=at, by="test"),
        ]
    )


def devices_of(plan: Plan) -> dict[str, str]:
    return {start.job_id: start.placement.uuids[0] for start in plan.starts}


def test_as_many_as_the_site_allows_share_a_device_and_the_next_takes_another() -> None:
    _, plan = start_all(site().advance(submitted(*(packable(number) for number in range(1, 6)))))
    on = devices_of(plan)
    assert len({on[str(number)] for number in range(1, 5)}) == 1
    assert on["5"] != on["1"]
    assert {grant.share_milli for start in plan.starts for grant in start.placement.grants} == {250}


@pytest.mark.parametrize(
    "other",
    [
        packable(2, user="bob"),
        packable(2, command=("python", "eval.py")),
        job(2, share_milli=500, split_milli=500),
        job(2, share_milli=10, share_of_memory=True, memory_mib=GIB),
        job(2),
    ],
)
def test_nobody_else_joins(other: Job) -> None:
    view, _ = start_all(site(box(gpus=1)).advance(submitted(packable(1))))
    assert start_all(view.advance(submitted(other)))[1].starts == ()


def test_a_packable_job_joins_no_other_share() -> None:
    view, _ = start_all(site(box(gpus=1)).advance(submitted(job(1, share_milli=500, split_milli=500))))
    assert start_all(view.advance(submitted(packable(2))))[1].starts == ()


def test_jobs_join_their_like_on_whichever_node_it_is() -> None:
    view, first = start_all(site(box("n0", 1), box("n1", 8)).advance(submitted(packable(1, node="n1"))))
    _, then = start_all(view.advance(submitted(packable(2))))
    assert devices_of(then)["2"] == devices_of(first)["1"]


def test_memory_bounds_how_many_share_a_device() -> None:
    view = site(box(gpus=1, memory_mib=80 * GIB)).advance(submitted(*(packable(n, 30) for n in (1, 2, 3))))
    assert started_ids(start_all(view)[1]) == ["1", "2"]


def test_a_job_of_unknown_memory_has_a_device_alone() -> None:
    unknown = [job(n, packable=True, name="train", command=("python", "train.py")) for n in (1, 2)]
    view = site(box(gpus=1)).advance(submitted(*unknown))
    view, plan = start_all(view)
    assert started_ids(plan) == ["1"]
    assert plan.starts[0].placement.grants[0].share_milli == 1000


def test_memory_that_was_measured_is_granted() -> None:
    unknown = [job(n, packable=True, name="train", command=("python", "train.py")) for n in (1, 2)]
    program = program_of(unknown[0].spec)
    assert program is not None
    peaks = PastValues({program: (1000.0, 2000.0, 1500.0)})
    view = site(box(gpus=1)).advance([MemoryPeaksObserved({"alice": peaks}), *submitted(*unknown)])
    _, plan = start_all(view)
    assert started_ids(plan) == ["1", "2"]
    assert {start.placement.grants[0].memory_mib for start in plan.starts} == {2400}


def test_a_device_of_unknown_memory_is_not_packed() -> None:
    node = box(gpus=1)
    unread = replace(node, devices=(replace(node.devices[0], memory_mib=None),))
    assert start_all(site(unread).advance(submitted(packable(1))))[1].starts == ()


@pytest.mark.parametrize(
    "how",
    [
        {"means": Means.EXCLUSIVE},
        {"means": Means.MPS, "clients": ClientLimits(slots=8)},
        {"means": Means.HOOK, "clients": ClientLimits(slots=8)},
    ],
)
def test_a_device_that_cannot_be_shared_in_such_parts_is_had_alone(how: dict[str, Any]) -> None:
    node = box(gpus=1)
    shared = replace(node, devices=(replace(node.devices[0], **how),))
    _, plan = start_all(site(shared).advance(submitted(packable(1), packable(2))))
    assert started_ids(plan) == ["1"]
    (grant,) = plan.starts[0].placement.grants
    assert (grant.share_milli, grant.memory_mib) == (1000, None)


def test_a_slot_of_mps_is_enough_for_a_small_part() -> None:
    node = box(gpus=1)
    shared = replace(node, devices=(replace(node.devices[0], means=Means.MPS, clients=ClientLimits(slots=4)),))
    assert len(start_all(site(shared).advance(submitted(packable(1), packable(2))))[1].starts) == 2


def test_a_job_alone_has_all_memory_of_its_device_which_is_large_enough() -> None:
    view = site(box("a", 1, memory_mib=8 * GIB), box("b", 1), most=1).advance(submitted(packable(1, 20)))
    (start,) = start_all(view)[1].starts
    assert start.placement.members[0].node == "b"
    assert start.placement.grants[0].memory_mib is None


def test_a_site_without_packing_gives_whole_devices() -> None:
    _, plan = start_all(site(most=1).advance(submitted(packable(1), packable(2))))
    assert len(set(devices_of(plan).values())) == 2


def test_a_part_counts_in_quotas() -> None:
    view = site(of_user=Quota(share_milli=500)).advance(submitted(*(packable(n) for n in (1, 2, 3))))
    assert started_ids(start_all(view)[1]) == ["1", "2"]


def round_of(view: View, first: int, count: int, at: float, ran_s: float) -> View:
    """The view after so many jobs have started together and run for this time."""
    view, plan = start_all(view.advance(submitted(*(packable(first + n) for n in range(count)))), at)
    assert len(plan.starts) == count
    for start in plan.starts:
        view = end(view, start.job_id, at + ran_s)
    return view


def slowed() -> View:
    """A site where four of a program together took three times as long as one alone."""
    view = site(box(gpus=1))
    for n in range(LEAST_RUNS):
        view = round_of(view, 10 * n + 1, 1, T0 + 1000 * n, 10.0)
    for n in range(3):
        view = round_of(view, 100 + 10 * n, 4, T0 + 10_000 + 1000 * n, 30.0)
    return view


def test_a_program_whose_jobs_slow_each_other_is_packed_less() -> None:
    view = slowed().advance(submitted(*(packable(n) for n in range(200, 204))))
    _, plan = start_all(view, T0 + 20_000)
    assert len(plan.starts) == 3
    assert packing_clause(view, view.jobs["200"]) == (
        "up to 3 jobs of its program share a GPU: 4 or more together took 3.00 times as long as one alone, and "
        "this site allows 1.25"
    )


def test_a_job_is_told_before_that_some_will_run_alone_to_be_compared() -> None:
    view = site(box(gpus=1)).advance(submitted(packable(1)))
    said = packing_clause(view, view.jobs["1"])
    assert said == "up to 4 jobs of its program share a GPU; once 9 have, 9 run alone, to be compared with them"
    for n in range(3):
        view = round_of(view, 10 * (n + 1), 4, T0 + 1000 * n, 30.0)
    view = view.advance(submitted(packable(200)))
    assert packing_clause(view, view.jobs["200"]) == (
        "it gets a GPU alone: 9 jobs of its program run alone now, to be compared with those that shared a GPU"
    )


def test_jobs_with_a_new_limit_do_not_join_those_of_the_old_one() -> None:
    view = slowed().advance(submitted(packable(200)))
    start = Planner(view).plan(T0 + 20_000).starts[0]
    view = view.advance(start_at_once(view, view.jobs["200"], start.placement, by="test", at=T0 + 20_000))
    relaxed = view.advance([SiteArranged(limits=Limits(pack_jobs=4, pack_slowdown=4.0))])
    assert start_all(relaxed.advance(submitted(packable(201))), T0 + 20_001)[1].starts == ()


def test_a_start_that_was_planned_by_an_earlier_limit_is_not_made_beside_others() -> None:
    view = site(box(gpus=1)).advance(submitted(packable(1), packable(2)))
    first, second = Planner(view).plan(T0).starts
    view = view.advance(start_at_once(view, view.jobs["1"], first.placement, by="test", at=T0))
    assert verify(view, second) is None
    fewer = view.advance([SiteArranged(limits=Limits(pack_jobs=3))])
    assert verify(fewer, second) is not None


def test_runs_that_failed_say_nothing() -> None:
    view = site(box(gpus=1))
    for n in range(LEAST_RUNS):
        view, _ = start_all(view.advance(submitted(packable(n + 1))), T0 + 100 * n)
        view = end(view, str(n + 1), T0 + 100 * n + 10, Phase.FAILED)
    assert view.packed == {}


@pytest.mark.parametrize("started_at", [None, T0 + 50.0])
def test_runs_of_no_time_say_nothing(started_at: float | None) -> None:
    view, _ = start_all(site(box(gpus=1)).advance(submitted(packable(1))))
    view = view.advance([JobChanged("1", {"started_at": started_at}, at=T0, by="test")])
    assert end(view, "1", T0 + 50.0).packed == {}


WISHES = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["train.py", "eval.py"]),
        st.sampled_from(["packable", "packable", "packable", "unknown", "half", "whole"]),
        st.sampled_from([1, 20, 50]),
        st.sampled_from([1.0, 3.0, 3.0, 10.0]),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=30,
)


def _job(number: int, wish: tuple[str, str, str, int, float, int]) -> Job:
    user, script, kind, memory_gib, _, at = wish
    options: dict[str, Any] = {"user": user, "name": script, "command": ("python", script), "submitted_at": T0 + at}
    if kind == "packable":
        return packable(number, memory_gib, **options)
    if kind == "unknown":
        return job(number, packable=True, **options)
    if kind == "half":
        return job(number, share_milli=500, split_milli=500, tenant=user, **options)
    return job(number, **options)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(WISHES, st.integers(1, 5), st.booleans(), st.floats(1.0, 2.0))
def test_no_life_shares_a_device_with_others_or_beyond_it(
    wishes: list[tuple[str, str, str, int, float, int]], most: int, one_user: bool, slowdown: float
) -> None:
    nodes = [box("n0", 1), box("n1", 2, memory_mib=60 * GIB)]
    if one_user:
        shared = tuple(replace(one, means=Means.MPS, one_user=True) for one in nodes[0].devices)
        nodes[0] = replace(nodes[0], devices=shared)
    planner = Planner(site(*nodes, most=most, slowdown=slowdown))
    works = [SimulatedWork(_job(number, wish), wish[4]) for number, wish in enumerate(wishes, 1)]

    def watch(now: float, plan: Plan) -> None:
        view = planner.view
        assert Planner(view).plan(now) == plan, "a cold planner plans the same"
        _sound(_after(view, plan, now), most)

    Engine(planner, [watch], tick_s=3600.0).run(works)
    assert all(one.ended_at is not None for one in works)


def _after(view: View, plan: Plan, now: float) -> View:
    for start in plan.starts:
        assert isinstance(start, Start)
        assert verify(view, start) is None, "what is planned is what is tested again"
        view = view.advance(start_at_once(view, view.jobs[start.job_id], start.placement, by="test", at=now))
    return view


def _sound(view: View, most: int) -> None:
    on = defaultdict(list)
    for allocation in view.allocations.values():
        for uuid in allocation.placement.uuids:
            on[uuid].append(view.jobs[allocation.job_id])
    for node in view.nodes.values():
        for device in node.devices:
            assert view.allocated_milli(device.uuid) <= 1000
            assert view.allocated_mib(device.uuid) <= (device.memory_mib or 0)
            there = on[device.uuid]
            if any(one.spec.packable for one in there):
                assert len(there) <= most
                assert len({(one.spec.user, program_of(one.spec)) for one in there}) == 1
                assert len(there) == 1 or all(request_of(view, one).memory_mib for one in there)
