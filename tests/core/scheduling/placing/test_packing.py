"""The planner's fast way to choose finds a place whenever the plain one does, and packs better."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.device import DeviceCondition
from corral.core.model.errors import Refused
from corral.core.model.fact import ConditionObserved, Delta
from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.fit import fit_memo
from corral.core.model.view import ViewDraft
from corral.core.scheduling.placing.node_by_node import choose
from corral.core.scheduling.placing.packing import SCORES, Packer
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import DEFAULT, SCORE_NAMES, Policy
from corral.core.scheduling.state.capacity import Capacity
from corral.core.scheduling.state.draft import Draft, PlacementRequest
from corral.core.scheduling.state.neighbours import resident_of
from corral.core.scheduling.state.set_aside import BlockedJob
from tests.core.scheduling.lab import T0, box, ended, idle, job, observed, started, started_ids, submitted, view_of

NODES = (box("a", 4), box("b", 2, cpus=8), box("c", 4, model="Tesla T4", memory_mib=15_360))
CORRAL = DEFAULT
CAPACITY = Capacity(ViewDraft(view_of(observed(*NODES))))
PACKERS = {name: Packer(CAPACITY, ((name, 1.0),)) for name in SCORES}

asks = st.builds(
    Request,
    devices=st.sampled_from([0, 1, 1, 2, 4]),
    share_milli=st.sampled_from([100, 300, 500, 1000]),
    models=st.sampled_from([(), (), ("A100",), ("T4",)]),
    cpu_milli=st.sampled_from([0, 4000, 30_000]),
    gang_size=st.sampled_from([1, 1, 1, 3]),
    avoid_jobs=st.sampled_from([(), (), ("x",)]),
    device_uuids=st.sampled_from([(), (), (), ("GPU-a-1", "GPU-a-3")]),
)


@given(st.sampled_from(sorted(SCORES)), st.lists(st.tuples(asks, st.booleans()), max_size=8), st.booleans())
def test_a_place_is_found_exactly_when_the_plain_search_finds_one(
    score: str, wishes: list[tuple[Request, bool]], kept: bool
) -> None:
    draft = Draft(CAPACITY, fit_memo())
    if kept:
        draft.aside.add(BlockedJob("1", Request(devices=2, models=("T4",)), False))
    for request, ask_all in wishes:
        wanted = PlacementRequest(request, respects_promises=not ask_all)
        plainly, found = choose(draft, wanted), PACKERS[score].choose(draft, wanted)
        assert isinstance(found, Placement) == isinstance(plainly, Placement)
        if isinstance(found, Placement) and wanted.respects_promises:
            draft.take(found.members, resident=resident_of(job(9, name="x")))
            assert min(slot.free_milli for node in NODES for slot in draft.free(node.name).slots) >= 0


def test_what_a_policy_may_name_is_what_there_is() -> None:
    assert set(SCORE_NAMES) == set(SCORES)


def test_a_share_joins_another_instead_of_opening_a_device() -> None:
    view = view_of(observed(*NODES) + submitted(job(1, share_milli=500), job(2, share_milli=500)))
    plan = Planner(view, policy=CORRAL).plan(T0)
    assert started_ids(plan) == ["1", "2"]
    assert plan.starts[0].placement.uuids == plan.starts[1].placement.uuids


def test_a_planner_that_has_seen_a_cluster_change_plans_like_one_that_met_it_so() -> None:
    warm = Planner(view_of(observed(*NODES)), policy=CORRAL)
    view = view_of(observed(*NODES))
    held: list[str] = []
    for number in range(1, 12):
        deltas = submitted(job(number, share_milli=300 if number % 2 else 1000))
        view = view.advance(deltas)
        warm.advance(deltas)
        plan = warm.plan(T0)
        cold = Planner(view, policy=CORRAL, prices=warm.prices)
        assert cold.plan(T0).starts == plan.starts
        for start in plan.starts:
            view = view.advance(started(start))
            warm.advance(started(start))
            held.append(start.job_id)
        if len(held) > 5:
            deltas = ended(held.pop(0))
            view = view.advance(deltas)
            warm.advance(deltas)


def test_learning_goes_on_between_plans_one_step_at_a_time() -> None:
    planner = Planner(view_of(observed(*NODES)), policy=CORRAL)
    assert not planner.learn()
    planner.advance(submitted(*(job(number, share_milli=300) for number in range(1, 40))))
    planner.plan(T0)
    before, steps = planner.prices, 0
    while planner.learn():
        steps += 1
    assert steps > 10
    assert planner.prices is not before


def test_one_machine_whose_jobs_take_whole_devices_has_nothing_to_learn() -> None:
    planner = Planner(view_of(observed(NODES[0])))
    planner.advance(submitted(*(job(number, number % 3) for number in range(1, 60))))
    planner.plan(T0)
    assert not planner.learn()
    planner.advance(submitted(job(60, share_milli=500)))
    assert planner.learn()


def test_what_arrived_before_a_planner_was_made_is_expected_by_it_too() -> None:
    requests = [job(number, share_milli=300).spec.request for number in range(100, 140)]
    seen, told = (Planner(view_of(observed(*NODES)), policy=CORRAL) for _ in range(2))
    seen.advance(submitted(*(job(number, share_milli=300, held=True) for number in range(100, 140))))
    told.observe_requests(requests)
    for planner in (seen, told):
        planner.advance(submitted(job(1, share_milli=300)))
        planner.plan(T0)
        while planner.learn():
            pass
    assert seen.prices is not None
    assert told.prices is not None
    assert (seen.prices.worth == told.prices.worth).all()


def test_a_node_that_joins_is_packed_onto() -> None:
    planner = Planner(view_of(observed(NODES[1])), policy=CORRAL)
    planner.advance(observed(NODES[0]) + submitted(job(1, 4)))
    assert started_ids(planner.plan(T0)) == ["1"]


def ranked(*weights: tuple[str, float]) -> Policy:
    return replace(DEFAULT, weights=weights)


def test_scores_are_combined_by_their_weights() -> None:
    busy = [idle(device, utilization_pct=90) for device in NODES[0].devices]
    deltas = observed(*NODES) + busy + submitted(job(1, share_milli=300), job(2, share_milli=300))
    by_use = Planner(view_of(deltas), policy=ranked(("availability", 1.0))).plan(T0)
    assert [start.placement.members[0].node for start in by_use.starts] == ["b", "b"]
    by_order = Planner(view_of(deltas), policy=ranked(("availability", 0.1), ("earlier-first", 1.0))).plan(T0)
    assert [start.placement.members[0].node for start in by_order.starts] == ["a", "a"]


def test_nodes_take_turns_within_a_cycle_and_from_one_to_the_next() -> None:
    nodes = (box("a", 2), box("b", 2), box("c", 2))
    view = view_of(observed(*nodes) + submitted(job(1), job(2)))
    planner = Planner(view, policy=ranked(("round-robin", 1.0)))
    first = planner.plan(T0)
    for start in first.starts:
        planner.advance(started(start, at=T0 + int(start.job_id)))
    planner.advance(submitted(job(3), job(4)))
    starts = (*first.starts, *planner.plan(T0).starts)
    assert [start.placement.members[0].node for start in starts] == ["a", "b", "c", "a"]


ONE_BOX = box("box", 4)
WAYS_TO_ASK = {
    "a whole device": {},
    "a share": {"share_milli": 300},
    "a share that may be split": {"share_milli": 300, "split_milli": 300},
    "memory": {"share_milli": 10, "memory_mib": 8192, "share_of_memory": True},
    "a device of some speed": {"speeds": (("A100", 2.0),)},
}


def taken_in_turn(planner: Planner, numbers: Iterable[int], **asked: Any) -> list[str]:
    """Where these jobs go that come one after the other, each ending before the next comes."""
    taken = []
    for number in numbers:
        planner.advance(submitted(job(number, **asked)))
        (start,) = planner.plan(T0 + number).starts
        taken += [uuid.rpartition("-")[2] for uuid in start.placement.uuids]
        planner.advance([*started(start, at=T0 + number), *ended(start.job_id, at=T0 + number)])
    return taken


@pytest.mark.parametrize("asked", WAYS_TO_ASK.values(), ids=WAYS_TO_ASK)
def test_the_devices_of_one_node_take_turns_though_the_last_to_have_one_has_ended(asked: dict[str, Any]) -> None:
    planner = Planner(view_of(observed(ONE_BOX)), policy=ranked(("round-robin", 1.0)))
    assert taken_in_turn(planner, range(1, 7), **asked) == ["0", "1", "2", "3", "0", "1"]


def test_devices_take_turns_within_a_cycle_and_pass_by_those_that_are_held() -> None:
    planner = Planner(view_of(observed(ONE_BOX)), policy=ranked(("round-robin", 1.0)))
    planner.advance(submitted(job(1, device_uuids=("GPU-box-1",))))
    for start in planner.plan(T0).starts:
        planner.advance(started(start))
    planner.advance(submitted(job(2), job(3, share_milli=200), job(4, share_milli=200), job(5, share_milli=200)))
    starts = planner.plan(T0 + 1).starts
    assert [start.placement.uuids for start in starts] == [
        ("GPU-box-2",), ("GPU-box-3",), ("GPU-box-0",), ("GPU-box-3",)
    ]  # fmt: skip


def test_several_devices_are_the_next_ones_and_the_turn_goes_on_behind_them() -> None:
    planner = Planner(view_of(observed(ONE_BOX)), policy=ranked(("round-robin", 1.0)))
    assert taken_in_turn(planner, range(1, 5), gpus=3) == [*"012", *"013", *"023", *"123"]


def test_a_planner_that_is_told_what_was_handed_out_last_goes_on_with_the_turn() -> None:
    planner = Planner(view_of(observed(ONE_BOX)), policy=ranked(("round-robin", 1.0)))
    taken_in_turn(planner, [1, 2])
    again = Planner(planner.view, policy=ranked(("round-robin", 1.0)))
    assert taken_in_turn(again, [3, 4]) == ["2", "3"]


def at_work(*utilization_pct: int | None, memory_free_mib: int = 81_920) -> list[Delta]:
    """The devices of the box working so hard."""
    return [
        idle(device, utilization_pct=pct, memory_free_mib=memory_free_mib - 1000 * (pct or 0))
        for device, pct in zip(ONE_BOX.devices, utilization_pct, strict=True)
    ]


@pytest.mark.parametrize("asked", WAYS_TO_ASK.values(), ids=WAYS_TO_ASK)
def test_the_least_loaded_device_of_one_node_is_taken(asked: dict[str, Any]) -> None:
    view = view_of([*observed(ONE_BOX), *at_work(30, 12, None, 5), *submitted(job(1, **asked))])
    (start,) = Planner(view, policy=ranked(("least-loaded", 1.0))).plan(T0).starts
    assert start.placement.uuids == ("GPU-box-3",)


def test_it_is_the_utilisation_that_counts_whatever_memory_is_free() -> None:
    full = idle(ONE_BOX.devices[2], utilization_pct=0, memory_free_mib=30_000)
    view = view_of([*observed(ONE_BOX), *at_work(1, 1, 1, 1), full, *submitted(job(1))])
    (start,) = Planner(view, policy=ranked(("least-loaded", 1.0))).plan(T0).starts
    assert start.placement.uuids == ("GPU-box-2",)


def test_several_devices_are_the_least_loaded_ones_and_one_that_tells_nothing_is_last() -> None:
    view = view_of([*observed(ONE_BOX), *at_work(100, 12, None, 5), *submitted(job(1, 3))])
    (start,) = Planner(view, policy=ranked(("least-loaded", 1.0))).plan(T0).starts
    assert start.placement.uuids == ("GPU-box-0", "GPU-box-1", "GPU-box-3")


def test_a_device_that_cannot_be_read_is_never_started_on() -> None:
    lost = ConditionObserved(DeviceCondition(ONE_BOX.devices[0].uuid, unreadable="the driver lost it"))
    view = view_of([*observed(ONE_BOX), *at_work(0, 99, 99, 99), lost, *submitted(*(job(n) for n in range(1, 6)))])
    for score in ("least-loaded", "round-robin"):
        starts = Planner(view, policy=ranked((score, 1.0))).plan(T0).starts
        assert sorted(start.placement.uuids for start in starts) == [("GPU-box-1",), ("GPU-box-2",), ("GPU-box-3",)]


def test_of_devices_that_are_equally_loaded_the_first_is_taken() -> None:
    view = view_of([*observed(ONE_BOX), *at_work(7, 5, 5, 5), *submitted(job(1))])
    (start,) = Planner(view, policy=ranked(("least-loaded", 1.0))).plan(T0).starts
    assert start.placement.uuids == ("GPU-box-1",)


def test_fragmentation_comes_to_expect_the_whole_devices_that_are_asked_for() -> None:
    view = view_of(observed(box("a", 1), box("b", 1)) + submitted(job(1, share_milli=500, device_uuids=("GPU-b-0",))))
    planner = Planner(view, policy=ranked(("fragmentation", 1.0)))
    for start in planner.plan(T0).starts:
        planner.advance(started(start))
    planner.advance(submitted(*(job(number) for number in range(100, 140))))
    while planner.learn():
        pass
    planner.advance(submitted(job(2, share_milli=500, priority=0)))
    assert planner.plan(T0).starts[0].placement.uuids == ("GPU-b-0",)


@pytest.mark.parametrize(
    ("weights", "message"),
    [((("packed", 1.0),), "no score 'packed'; did you mean 'pack'"), ((("pack", -1.0),), "it is at least 0")],
)
def test_a_score_that_there_is_not_or_a_negative_weight_is_refused(
    weights: tuple[tuple[str, float], ...], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        Packer(CAPACITY, weights)
