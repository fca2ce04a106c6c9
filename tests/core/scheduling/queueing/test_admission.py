"""Limits and quotas: what is refused for now, with the numbers, and what never exceeds them."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.devices.device import Node
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.plan import Plan
from corral.core.model.queues.queue import Limits, Project, Queue, Quota
from corral.core.model.runs.run_history import PastRun
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, ended, job, observed, started, started_ids, submitted


def planned(view: View, *jobs: Any, limits: Limits | None = None) -> Plan:
    return Planner(view.advance(observed(box()) + submitted(*jobs)), limits=limits).plan(T0)


def why(plan: Plan, number: int) -> str | None:
    return next(wait.detail for wait in plan.waits if wait.job_id == str(number))


def test_a_user_holds_no_more_gpus_than_the_site_allows() -> None:
    plan = planned(View(), job(1, 3), job(2, 2), job(3, 2, user="bob"), limits=Limits(of_user=Quota(devices=4)))
    assert started_ids(plan) == ["1", "3"]
    assert why(plan, 2) == "user alice uses 3 of at most 4 GPUs, and this job asks for 2 more"


def test_a_cpu_job_is_not_kept_back_by_a_quota_of_gpus() -> None:
    plan = planned(View(), job(1, 4), job(2, 0), limits=Limits(of_user=Quota(devices=4)))
    assert started_ids(plan) == ["1", "2"]


def test_a_project_runs_no_more_jobs_than_its_quota() -> None:
    view = View(projects={"nlp": Project("nlp", quota=Quota(running=1))})
    plan = planned(view, job(1, project="nlp"), job(2, project="nlp"), job(3))
    assert started_ids(plan) == ["1", "3"]
    assert why(plan, 2) == "project nlp runs 1 of at most 1 job"


def test_a_quota_of_a_parent_queue_binds_all_below_it() -> None:
    view = View(
        queues={
            q.name: q
            for q in (
                Queue("lab", quota=Quota(share_milli=2000)),
                Queue("day", parent="lab"),
                Queue("night", parent="lab"),
            )
        }
    )
    plan = planned(view, job(1, queue="day"), job(2, queue="night", share_milli=500), job(3, queue="day"))
    assert started_ids(plan) == ["1", "2"]
    assert why(plan, 3) == "queue lab uses 1.5 of at most 2 GPUs, and this job asks for 1 more"


def test_a_quota_of_memory_counts_what_is_granted() -> None:
    view = View(queues={"default": Queue("default", quota=Quota(memory_mib=30_720))})
    plan = planned(view, job(1, memory_mib=20_480, share_milli=500), job(2, memory_mib=20_480, share_milli=500))
    assert started_ids(plan) == ["1"]
    assert why(plan, 2) == "queue default uses 20G of at most 30G, and this job asks for 20G more"


def test_gpu_hours_of_the_last_period_are_counted_with_those_being_used() -> None:
    week = Quota(gpu_hours=10, period_s=7 * 86_400)
    past = [PastRun("bob", "nlp", "default", (), 1.0, T0 - 30 * 86_400, T0 - 29 * 86_400)]
    past += [PastRun("bob", "nlp", "default", (), 2.0, T0 - 3600, T0)]
    view = View(projects={"nlp": Project("nlp", quota=week)}).remembering(past)
    view = view.advance(observed(box()) + submitted(job(1, 4, project="nlp"), job(2, 1, project="nlp")))
    first, second = Planner(view).plan(T0).starts
    assert (first.job_id, second.job_id) == ("1", "2"), "2 of 10 GPU-hours are used"
    view = view.advance(started(first)).advance(submitted(job(3, 1, project="nlp")))
    plan = Planner(view).plan(T0 + 2.1 * 3600)
    assert started_ids(plan) == []
    assert why(plan, 2) == "project nlp used 10.4 of at most 10 GPU-hours in the last 7d"


def test_a_shared_quota_is_kept_for_the_first_job_that_it_bars() -> None:
    view = View(queues={"default": Queue("default", quota=Quota(share_milli=4000))})
    view = view.advance(observed(box()) + submitted(job(1, 3, time_limit_s=100)))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    jobs = [job(2, 4), job(3, 1, time_limit_s=101), job(4, 1, time_limit_s=100), job(5, 0)]
    plan = Planner(view.advance(submitted(*jobs))).plan(T0)
    assert started_ids(plan) == ["4", "5"], "what ends in time passes, and what needs no GPU"
    wait = next(wait for wait in plan.waits if wait.job_id == "3")
    assert (wait.behind, wait.detail) == ("2", "the quota of queue default")


def test_a_users_own_limit_is_not_kept_from_their_smaller_jobs() -> None:
    plan = planned(View(), job(1, 3), job(2, 2), job(3, 1), limits=Limits(of_user=Quota(devices=4)))
    assert started_ids(plan) == ["1", "3"]


def test_queues_take_turns_by_what_they_hold_for_their_weight() -> None:
    view = View(queues={"a": Queue("a", weight=3.0), "b": Queue("b")})
    jobs = [job(n, queue="a") for n in range(1, 9)] + [job(n, queue="b") for n in range(11, 19)]
    plan = planned(view, *jobs)
    assert sum(int(job_id) < 10 for job_id in started_ids(plan)) == 6


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 4), st.sampled_from([1000, 500]), st.sampled_from(["day", "night"]), st.sampled_from("ab")
    ),
    max_size=14,
)


@settings(max_examples=80)
@given(REQUESTS, st.integers(0, 3000), st.integers(0, 2000))
def test_no_quota_is_exceeded_but_by_what_was_borrowed(
    requests: list[tuple[int, int, str, str]], own_milli: int, borrow_milli: int
) -> None:
    day = Queue("day", parent="lab", quota=Quota(share_milli=own_milli, borrow_milli=borrow_milli))
    night = Queue("night", parent="lab", quota=Quota(share_milli=2000))
    view = View(
        queues={q.name: q for q in (day, night, Queue("lab"))}, projects={"p": Project("p", quota=Quota(devices=6))}
    ).advance(observed(box()))
    for number, (gpus, share, queue, user) in enumerate(requests, start=1):
        view = view.advance(submitted(job(number, gpus, share_milli=share, queue=queue, user=user, project="p")))
        for start in Planner(view, limits=Limits(of_user=Quota(devices=5))).plan(T0).starts:
            view = view.advance(started(start))
    held = {"day": 0, "night": 0}
    devices = {"a": 0, "b": 0}
    for allocation in view.allocations.values():
        spec = view.jobs[allocation.job_id].spec
        held[spec.queue] += spec.request.total_milli
        devices[spec.user] += spec.request.devices
    assert held["night"] <= 2000
    assert held["day"] <= own_milli + borrow_milli
    assert held["day"] - own_milli <= 2000, "no more is borrowed than there is beside it"
    assert max(devices.values()) <= 5
    assert sum(devices.values()) <= 6


def alone(memory_mib: int) -> dict[str, Any]:
    """A request of memory alone."""
    return {"share_milli": 10, "share_of_memory": True, "memory_mib": memory_mib}


FORMS: list[dict[str, Any]] = [
    alone(81_920),
    {"share_milli": 10, "memory_mib": 81_920},
    {"share_milli": 10, "memory_percent": 100},
    {"share_milli": 10, "cores_percent": 100},
    {"share_milli": 10, "split_milli": 10, "memory_mib": 81_920},
    {},
]


@pytest.mark.parametrize("form", FORMS)
def test_a_whole_device_is_one_in_whatever_words_it_is_asked_for(form: dict[str, Any]) -> None:
    plan = planned(View(), *(job(n, **form) for n in (1, 2, 3)), limits=Limits(of_user=Quota(share_milli=2000)))
    assert started_ids(plan) == ["1", "2"]
    assert why(plan, 3) == "user alice uses 2 of at most 2 GPUs, and this job asks for 1 more"


@pytest.mark.parametrize("form", [form for form in FORMS if form])
def test_what_runs_counts_for_the_next_as_it_was_granted(form: dict[str, Any]) -> None:
    view = View().advance(observed(box()) + submitted(job(1, **form), job(2, **form)))
    limits = Limits(of_user=Quota(share_milli=1500))
    (first,) = Planner(view, limits=limits).plan(T0).starts
    planner = Planner(view.advance(started(first)), limits=limits)
    assert planner.plan(T0).starts == ()
    planner.advance(ended("1"))
    assert started_ids(planner.plan(T0)) == ["2"]


def test_a_share_spread_over_devices_counts_each_of_them() -> None:
    spread = {"share_milli": 1000, "split_milli": 1200}
    plan = planned(View(), job(1, **spread), job(2), limits=Limits(of_user=Quota(devices=2)))
    assert started_ids(plan) == ["1"]
    plan = planned(View(), job(1, **spread), limits=Limits(of_user=Quota(devices=1)))
    assert started_ids(plan) == []


def test_the_memory_of_a_whole_device_counts_against_a_quota_of_memory() -> None:
    view = View(queues={"default": Queue("default", quota=Quota(memory_mib=100_000))})
    assert started_ids(planned(view, job(1), job(2))) == ["1"]


def test_a_job_goes_where_it_stays_within_its_quota() -> None:
    """Memory counts as less on a larger device; the small one comes first in every other regard."""
    nodes = box("a", 1, memory_mib=20_480), box("b", 1, memory_mib=81_920)
    limits = Limits(of_user=Quota(share_milli=300))
    view = View().advance(observed(*nodes) + submitted(job(1, **alone(20_480)), job(2, **alone(20_480))))
    plan = Planner(view, limits=limits).plan(T0)
    assert [start.placement.members[0].node for start in plan.starts] == ["b"]
    assert why(plan, 2) == "user alice uses 0.25 of at most 0.3 GPUs, and this job asks for 0.25 more"
    assert len(Planner(view).plan(T0).starts) == 2


def sliced(node: Node) -> Node:
    """The node with seven small slices on top of what it has."""
    first = node.devices[0]
    slices = (
        replace(first, uuid=f"MIG-{i}", index=100 + i, memory_mib=9728, mig_profile="1g.10gb", slice_milli=142)
        for i in range(7)
    )
    return replace(node, devices=(*node.devices, *slices))


def test_slices_count_as_their_part_of_a_device() -> None:
    view = View().advance(observed(sliced(box(gpus=1))) + submitted(*(job(n, mig_profile="1g.10gb") for n in range(8))))
    assert len(Planner(view, limits=Limits(of_user=Quota(share_milli=1000))).plan(T0).starts) == 7
    assert len(Planner(view, limits=Limits(of_user=Quota(share_milli=500))).plan(T0).starts) == 3


SHAPES = st.one_of(
    st.builds(lambda gpus: {"gpus": gpus}, st.integers(1, 3)),
    st.builds(lambda share: {"share_milli": share}, st.sampled_from([10, 300, 750])),
    st.builds(alone, st.sampled_from([500, 9_000, 20_480, 81_920])),
    st.builds(
        lambda share, memory: {"share_milli": share, "memory_mib": memory},
        st.sampled_from([10, 500]),
        st.sampled_from([500, 20_480, 81_920]),
    ),
    st.builds(lambda percent: {"share_milli": 10, "memory_percent": percent}, st.integers(1, 100)),
    st.builds(lambda percent: {"share_milli": 10, "cores_percent": percent}, st.integers(1, 100)),
    st.builds(
        lambda total, memory: {"share_milli": min(1000, total), "split_milli": total, "memory_mib": memory},
        st.sampled_from([300, 1200, 2500]),
        st.sampled_from([None, 4_000, 20_480]),
    ),
    st.just({"mig_profile": "1g.10gb"}),
    st.builds(lambda shape: {**shape, "gang_size": 2}, st.sampled_from([{"share_milli": 500}, alone(20_480)])),
)


def counts_as(view: View, grant: Grant) -> tuple[int, int]:
    """What a grant comes to, in milli-GPU and MiB, reckoned from its device anew."""
    found = view.device(grant.uuid)
    assert found is not None
    device = found[1]
    assert device.memory_mib is not None
    memory_mib = device.memory_mib if grant.memory_mib is None else grant.memory_mib
    part_milli = memory_mib * 1000 // device.memory_mib
    return max(grant.share_milli, part_milli) if device.slice_milli is None else device.slice_milli, memory_mib


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(SHAPES, st.sampled_from("ab")), max_size=12), st.integers(0, 3000), st.integers(0, 200_000))
def test_what_is_held_never_exceeds_a_quota_whatever_the_words(
    asked: list[tuple[dict[str, Any], str]], most_milli: int, most_mib: int
) -> None:
    queue = Queue("default", quota=Quota(share_milli=most_milli, memory_mib=most_mib, devices=5))
    nodes = sliced(box("big", 3)), box("small", 2, memory_mib=24_576)
    view = View(queues={"default": queue}).advance(observed(*nodes))
    for number, (shape, user) in enumerate(asked, start=1):
        view = view.advance(submitted(job(number, user=user, **shape)))
        for start in Planner(view, limits=Limits(of_user=Quota(share_milli=1500))).plan(T0).starts:
            view = view.advance(started(start, user=view.jobs[start.job_id].spec.user))
    granted = ((one.user, grant) for one in view.allocations.values() for grant in one.placement.grants)
    held = [(user, *counts_as(view, grant)) for user, grant in granted]
    assert sum(milli for _, milli, _ in held) <= most_milli
    assert sum(memory_mib for _, _, memory_mib in held) <= most_mib
    assert len(held) <= 5
    for user in "ab":
        assert sum(milli for whose, milli, _ in held if whose == user) <= 1500
