"""The planner's fast way to choose finds a place whenever the plain one does, and packs better."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.allocation import Placement
from corral.model.errors import Refused
from corral.model.job import Request
from corral.model.view import ViewDraft
from corral.scheduling.capacity import Capacity
from corral.scheduling.choose import choose
from corral.scheduling.draft import Ask, Draft, FitMemo, Keeping
from corral.scheduling.packing import SCORES, Packer
from corral.scheduling.planner import Planner
from corral.scheduling.policy import DEFAULT, SCORE_NAMES, Policy
from tests.scheduling.lab import T0, box, ended, idle, job, observed, started, started_ids, submitted, view_of

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
    draft = Draft(CAPACITY, FitMemo())
    if kept:
        draft.keep(Keeping("1", Request(devices=2, models=("T4",)), False))
    for request, ask_all in wishes:
        ask = Ask(request, kept=not ask_all)
        plainly, found = choose(draft, ask), PACKERS[score].choose(draft, ask)
        assert isinstance(found, Placement) == isinstance(plainly, Placement)
        if isinstance(found, Placement) and ask.kept:
            draft.take(found.members, job=job(9, name="x"))
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
    told.recall(requests)
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
