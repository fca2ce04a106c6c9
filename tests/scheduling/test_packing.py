"""The planner's fast way to choose finds a place whenever the plain one does, and packs better."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from corral.model.allocation import Placement
from corral.model.job import Request
from corral.model.view import ViewDraft
from corral.scheduling.capacity import Capacity
from corral.scheduling.choose import choose
from corral.scheduling.draft import Ask, Draft, FitMemo, Keeping
from corral.scheduling.packing import Packer
from corral.scheduling.planner import Planner
from corral.scheduling.policy import DEFAULT, Prefer
from tests.scheduling.lab import T0, box, ended, job, observed, started, started_ids, submitted, view_of

NODES = (box("a", 4), box("b", 2, cpus=8), box("c", 4, model="Tesla T4", memory_mib=15_360))
CORRAL = replace(DEFAULT, prefer=Prefer.CORRAL)
CAPACITY = Capacity(ViewDraft(view_of(observed(*NODES))))
PACKER = Packer(CAPACITY)

asks = st.builds(
    Request,
    devices=st.sampled_from([0, 1, 1, 2, 4]),
    share_milli=st.sampled_from([100, 300, 500, 1000]),
    models=st.sampled_from([(), (), ("A100",), ("T4",)]),
    cpu_milli=st.sampled_from([0, 4000, 30_000]),
    gang_size=st.sampled_from([1, 1, 1, 3]),
    avoid_jobs=st.sampled_from([(), (), ("x",)]),
)


@given(st.lists(st.tuples(asks, st.booleans()), max_size=8), st.booleans())
def test_a_place_is_found_exactly_when_the_plain_search_finds_one(
    wishes: list[tuple[Request, bool]], kept: bool
) -> None:
    draft = Draft(CAPACITY, FitMemo())
    if kept:
        draft.keep(Keeping("1", Request(devices=2, models=("T4",)), False))
    for request, ask_all in wishes:
        ask = Ask(request, kept=not ask_all)
        plainly, found = choose(draft, ask), PACKER.choose(draft, ask)
        assert isinstance(found, Placement) == isinstance(plainly, Placement)
        if isinstance(found, Placement) and ask.kept:
            draft.take(found.members, job=job(9, name="x"))
            assert min(slot.free_milli for node in NODES for slot in draft.free(node.name).slots) >= 0


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
        cold = Planner(view, policy=CORRAL)
        cold.adopt(warm.prices)
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
    before = planner.prices
    assert not planner.learn()
    planner.advance(submitted(*(job(number, share_milli=300) for number in range(1, 40))))
    steps = 0
    while planner.learn():
        steps += 1
    assert steps > 10
    assert planner.prices is not before


def test_a_node_that_joins_is_packed_onto() -> None:
    planner = Planner(view_of(observed(NODES[1])), policy=CORRAL)
    planner.advance(observed(NODES[0]) + submitted(job(1, 4)))
    assert started_ids(planner.plan(T0)) == ["1"]
