"""Which running jobs are moved, and that none is moved for nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.fact import MovesAllowed
from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.plan import Plan, Start
from corral.core.model.view import View
from corral.core.scheduling.evicting.moving import SETTLED_S
from corral.core.scheduling.placing.node_by_node import choose
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.state.draft import PlacementRequest, draft_of
from corral.features.rebalancing.moves_now import moves_now
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted

LATER = T0 + SETTLED_S + 100.0


def site(*held: tuple[Job, dict[str, int]], sizes: tuple[int, ...] = (4, 4), allowed: bool = True) -> View:
    """Nodes n0, n1, ... on which each job holds so many of the first free devices of each node since T0."""
    view = View().advance(observed(*(box(f"n{i}", gpus) for i, gpus in enumerate(sizes))))
    taken: dict[str, int] = {}
    for one, nodes in held:
        members = []
        for name, count in nodes.items():
            first = taken.get(name, 0)
            taken[name] = first + count
            uuids = (f"GPU-{name}-{i}" for i in range(first, first + count))
            members.append(Member(name, tuple(Grant(uuid, 1000) for uuid in uuids)))
        view = view.advance([*submitted(one), *started(Start(one.id, Placement(tuple(members)), "test"))])
    return view.advance([MovesAllowed(LATER + 60.0)]) if allowed else view


def movable(number: int, gpus: int = 1, **options: object) -> Job:
    return job(number, gpus, movable=True, **options)


def moved(plan: Plan) -> list[str]:
    assert all(one.rule is EvictionRule.MOVE for one in plan.evictions)
    return [one.job_id for one in plan.evictions]


def plan_of(view: View, now: float = LATER) -> Plan:
    return Planner(view).plan(now)


def test_a_job_moves_so_that_a_large_one_starts() -> None:
    view = site((movable(1), {"n0": 1}), (movable(2), {"n1": 1})).advance(submitted(job(9, 4)))
    (eviction,) = plan_of(view).evictions
    assert eviction.for_job_id == "9"
    assert eviction.reason == "it moves, so that job 9 can start"


def test_the_move_of_least_lost_work_is_chosen() -> None:
    view = site((movable(1, 2), {"n0": 2}), (movable(2), {"n1": 1})).advance(submitted(job(9, 4)))
    assert moved(plan_of(view)) == ["2"]


def test_nothing_moves_unless_the_site_lets_it() -> None:
    waits = submitted(job(9, 4))
    held = ((movable(1), {"n0": 1}), (movable(2), {"n1": 1}))
    assert not plan_of(site(*held, allowed=False).advance(waits)).evictions
    assert not plan_of(site(*held).advance(waits), now=LATER + 61.0).evictions


def test_only_jobs_that_said_so_move() -> None:
    assert not plan_of(site((job(1), {"n0": 1}), (job(2), {"n1": 1})).advance(submitted(job(9, 4)))).evictions


def test_a_job_that_has_just_started_does_not_move() -> None:
    view = site((movable(1), {"n0": 1}), (movable(2), {"n1": 1})).advance(submitted(job(9, 4)))
    view = view.advance([MovesAllowed(LATER)])
    assert not plan_of(view, now=T0 + SETTLED_S - 1.0).evictions


def test_nothing_moves_if_it_would_only_wait_in_turn() -> None:
    full = site((movable(1, 4), {"n0": 4}), (job(2, 4), {"n1": 4})).advance(submitted(job(9, 4)))
    assert not plan_of(full).evictions


def test_moves_whose_jobs_have_no_other_place_are_passed_over_for_others_that_have() -> None:
    # Job 1 would lose less work, but needs its own node.
    view = site((movable(1, node="n0"), {"n0": 1}), (movable(2, 2), {"n1": 2})).advance(submitted(job(9, 4)))
    assert moved(plan_of(view)) == ["2"]


def test_what_was_freed_by_moves_is_kept_for_the_job_that_they_were_for() -> None:
    view = site((movable(1), {"n0": 1}), (movable(2), {"n1": 1})).advance(submitted(job(9, 4), job(10, 1)))
    plan = plan_of(view)
    places = {one.job_id: [member.node for member in one.placement.members] for one in plan.promises}
    assert places == {"9": ["n0"], "1": ["n1"]}


def test_a_nearly_empty_node_is_emptied_if_its_jobs_fit_beside_others() -> None:
    view = site((movable(1), {"n0": 1}), (job(2, 2), {"n1": 2}))
    plan = plan_of(view)
    assert [(one.job_id, one.for_job_id, one.reason) for one in plan.evictions] == [
        ("1", "1", "it moves, so that node n0 is empty for larger jobs")
    ]


def test_a_node_is_not_emptied_to_fill_an_empty_one() -> None:
    assert not plan_of(site((movable(1), {"n0": 1}))).evictions


def test_a_node_that_is_more_than_half_in_use_is_not_emptied() -> None:
    assert not plan_of(site((movable(1, 3), {"n0": 3}), (job(2), {"n1": 1}))).evictions


def test_a_node_is_not_emptied_by_half() -> None:
    assert not plan_of(site((movable(1), {"n0": 1}), (job(3), {"n0": 1}), (job(2, 2), {"n1": 2}))).evictions


def test_the_moves_are_foreseen_with_the_starts_that_they_bring() -> None:
    view = site((movable(1), {"n0": 1}), (movable(2), {"n1": 1}), allowed=False).advance(submitted(job(9, 4)))
    found = moves_now(view, LATER, Planner)
    assert [(one.job_id, one.for_job_id) for one in found.moves] == [("1", "9")]
    assert [one.job_id for one in found.starts] == ["9"]


def test_a_gang_over_several_nodes_gets_room() -> None:
    view = site((movable(1), {"n0": 1}), (movable(2), {"n1": 1}), (movable(3), {"n2": 1}), sizes=(2, 2, 2))
    view = view.advance(submitted(job(9, 2, gang_size=2, spread=True)))
    assert all(one.for_job_id != "9" for one in plan_of(view).evictions)
    larger = site((movable(1), {"n0": 1}), (movable(2), {"n1": 1}), (movable(3), {"n2": 1}), sizes=(2, 2, 4))
    found = moves_now(larger.advance(submitted(job(9, 2, gang_size=2, spread=True))), LATER, Planner)
    assert [one.job_id for one in found.starts] == ["9"]


def test_no_job_behind_takes_the_new_place_of_a_moved_job() -> None:
    view = site((movable(1), {"n0": 1}), (job(2, 3), {"n1": 3})).advance(submitted(job(9, 4), job(10, 1)))
    plan = plan_of(view)
    assert moved(plan) == ["1"]
    assert plan.starts == ()


_JOBS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.booleans()), max_size=8)


@settings(max_examples=150, deadline=None)
@given(_JOBS, st.lists(st.integers(1, 4), max_size=3))
def test_whatever_moves_has_another_place_and_the_job_it_moves_for_has_one(
    held: list[tuple[int, int, bool]], waits: list[int]
) -> None:
    left, jobs = [4, 4, 4], []
    for number, (node, gpus, may) in enumerate(held, start=1):
        if left[node] >= gpus:
            left[node] -= gpus
            jobs.append((job(number, gpus, movable=may), {f"n{node}": gpus}))
    view = site(*jobs, sizes=(4, 4, 4)).advance(submitted(*(job(100 + i, gpus) for i, gpus in enumerate(waits))))
    plan = plan_of(view)
    draft = draft_of(view)
    for start in plan.starts:
        draft.take(start.placement.members)
    for one in plan.evictions:
        assert view.jobs[one.job_id].spec.movable
        draft.give(view.allocations[f"{one.job_id}.1"].placement.members)
    for job_id in dict.fromkeys(one.for_job_id for one in plan.evictions if one.for_job_id != one.job_id):
        placed = choose(draft, PlacementRequest(view.jobs[job_id].spec.request))
        assert isinstance(placed, Placement)
        draft.take(placed.members)
    largest_first = sorted(plan.evictions, key=lambda one: -view.jobs[one.job_id].spec.request.devices)
    for one in largest_first:
        placed = choose(draft, PlacementRequest(view.jobs[one.job_id].spec.request))
        assert isinstance(placed, Placement)
        draft.take(placed.members)
