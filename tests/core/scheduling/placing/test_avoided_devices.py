"""A job keeps off the devices that fell sick under it, wherever it is placed, and learns so if nothing else is left."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.lifecycle.device_faults import aged
from corral.core.model.devices.health import DeviceHealth, Health
from corral.core.model.fact import Delta, DeviceHealthChanged
from corral.core.model.jobs.job import Job, Request
from corral.core.model.jobs.site_faults import AVOIDED_S
from corral.core.model.placing.fit import Cause, Misfit, fit
from corral.core.model.placing.plan import WaitReason
from corral.core.model.placing.state import node_state
from corral.core.model.view import View, ViewDraft
from corral.core.scheduling.explaining.impossible import impossible
from corral.core.scheduling.explaining.why import WaitIndex, explain
from corral.core.scheduling.placing.start_recheck import verify
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import POLICIES
from corral.core.scheduling.state.capacity import Capacity
from tests.core.scheduling.lab import T0, box, job, observed, started, started_ids, submitted, view_of


def sick(uuid: str, state: Health = Health.QUARANTINED) -> Delta:
    return DeviceHealthChanged(uuid, DeviceHealth(state, "Xid 79", T0, relapses=1), at=T0, by="test")


def off(one: Job, *indices: int, node: str = "box") -> Job:
    avoided = tuple((f"GPU-{node}-{index}", T0) for index in indices)
    return replace(one, spec=replace(one.spec, request=replace(one.spec.request, avoided=avoided)))


def planned(view: View) -> tuple[str, ...]:
    (start,) = Planner(view).plan(T0).starts
    assert verify(view, start) is None
    return start.placement.uuids


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize(
    "asked", [{}, {"share_milli": 500}, {"split_milli": 1500}, {"gang_size": 2, "gpus": 1}, {"gpus": 2}], ids=str
)
def test_no_policy_places_a_job_on_what_it_keeps_off(policy: str, asked: dict[str, Any]) -> None:
    view = view_of([*observed(box("a", 4)), *submitted(off(job(1, **{"gpus": 1, **asked}), 0, 3, node="a"))])
    (start,) = Planner(view, policy=POLICIES[policy]).plan(T0).starts
    assert {"GPU-a-0", "GPU-a-3"}.isdisjoint(start.placement.uuids)
    assert verify(view, start) is None


def test_other_jobs_still_get_the_device() -> None:
    view = view_of([*observed(box(gpus=1)), *submitted(off(job(1), 0), job(2))])
    assert started_ids(Planner(view).plan(T0)) == ["2"]


def test_a_start_on_an_avoided_device_is_dropped_at_its_commit() -> None:
    view = view_of([*observed(box(gpus=2)), *submitted(job(1))])
    (start,) = Planner(view).plan(T0).starts
    again = view.advance(submitted(off(job(1), *(int(uuid[-1]) for uuid in start.placement.uuids))))
    misfit = verify(again, start)
    assert misfit is not None


def test_a_slice_of_an_avoided_device_is_avoided_too() -> None:
    whole = box(gpus=1).devices[0]
    part = replace(whole, uuid="MIG-1", parent_uuid=whole.uuid)
    assert not off(job(1), 0).spec.request.may_use(part)


def test_a_request_that_names_its_devices_keeps_to_them() -> None:
    view = view_of([*observed(box(gpus=2)), *submitted(off(job(1, device_uuids=("GPU-box-1",)), 1))])
    assert planned(view) == ("GPU-box-1",)


def test_nodes_without_the_avoided_devices_share_the_answers_of_the_fit_test() -> None:
    view = view_of(observed(box("a", 2), box("b", 2)))
    capacity = Capacity(ViewDraft(view))
    assert capacity.usable("b", off(job(1), 0, node="a").spec.request) is None
    assert capacity.usable("a", off(job(1), 0, node="a").spec.request) == (1,)
    assert capacity.usable("a", Request()) is None


def test_the_misfit_is_no_reason_to_give_up_and_evicting_others_does_not_help() -> None:
    view = view_of(observed(box(gpus=1)))
    request = off(job(1), 0).spec.request
    answer = fit(request, node_state(view, "box"), usable=())
    assert isinstance(answer, Misfit)
    assert (answer.cause, answer.never, answer.eviction_helps) == (Cause.AVOIDED, False, False)
    assert impossible(view, request) is None


def test_why_says_what_the_job_keeps_off_until_when_and_how_to_change_it() -> None:
    view = view_of([*observed(box(gpus=1)), *submitted(off(job(1), 0))])
    plan = Planner(view).plan(T0)
    told = explain(view, view.jobs["1"], WaitIndex(plan, view).of(view.jobs["1"]), T0 + 3600, plan=plan)
    assert told.reason is WaitReason.RESOURCES
    assert "box has 0 free, 1 kept off, because it fell sick while the job ran there" in told.sentence
    assert (
        "It keeps off GPU 0 for 6d 23h more, which fell sick under it; `corral release 1` ends that." in told.sentence
    )
    later = view.advance(aged(view, T0 + AVOIDED_S))
    assert planned(later) == ("GPU-box-0",)


def test_a_quarantined_device_takes_nothing_and_a_suspect_one_no_work_with_several() -> None:
    view = view_of([*observed(box(gpus=2)), sick("GPU-box-0"), *submitted(job(1), job(2))])
    assert planned(view) == ("GPU-box-1",)
    view = view_of([*observed(box(gpus=2)), sick("GPU-box-0", Health.SUSPECT), *submitted(job(1, 2))])
    assert Planner(view).plan(T0).starts == ()


def test_a_promise_on_a_device_that_falls_sick_is_made_anew_elsewhere() -> None:
    long, short = job(1, time_limit_s=900), job(2, time_limit_s=600)
    view = view_of([*observed(box(gpus=2)), *submitted(long, short)])
    planner = Planner(view, policy=replace(POLICIES["fcfs"]))
    for start in planner.plan(T0).starts:
        planner.advance(started(start))
    planner.advance(submitted(job(3)))
    (promised,) = planner.plan(T0).future_starts
    (uuid,) = promised.placement.uuids
    planner.advance([sick(uuid)])
    (anew,) = planner.plan(T0).future_starts
    assert (anew.placement.uuids != promised.placement.uuids, anew.start_at) == (True, T0 + 900)


HEALTHS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(list(Health))), max_size=8)


@given(HEALTHS)
def test_capacity_follows_the_health_of_devices(steps: list[tuple[int, Health]]) -> None:
    draft = ViewDraft(view_of(observed(box(gpus=4))))
    capacity = Capacity(draft)
    for index, state in steps:
        delta = sick(f"GPU-box-{index}", state)
        draft.apply([delta])
        capacity.follow(delta)
        assert capacity.state("box") == node_state(draft.view, "box")
