"""Nodes on which nothing may start: the planner passes them over, with and without devices, and says so."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.devices.device import NodeStatus, Silence
from corral.core.model.fact import Delta, NodeObserved, SilenceObserved
from corral.core.model.placing.state import node_state
from corral.core.model.view import View, ViewDraft
from corral.core.scheduling.explaining.impossible import impossible
from corral.core.scheduling.explaining.why import WaitIndex, explain
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.state.capacity import Capacity
from tests.core.scheduling.lab import T0, box, job, observed, started, started_ids, submitted, view_of

SILENT = Silence(T0, "node a has not answered since 14:20:31")
NODES = ("a", "b", "c")


def silent(name: str) -> list[Delta]:
    return [SilenceObserved(name, SILENT)]


def ready(name: str) -> list[Delta]:
    return [SilenceObserved(name, None)]


def nodes_of(view: View) -> dict[str, list[str]]:
    """The nodes that each job that is started now gets."""
    return {start.job_id: [m.node for m in start.placement.members] for start in Planner(view).plan(T0).starts}


@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_nothing_starts_on_a_silent_node_not_even_a_job_without_a_gpu(gpus: int) -> None:
    view = view_of([*observed(box("a"), box("b")), *silent("a"), *submitted(job(1, gpus, cpu_milli=1000))])
    assert nodes_of(view) == {"1": ["b"]}


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_job_waits_while_every_node_is_silent_and_starts_when_one_is_back(gpus: int) -> None:
    view = view_of([*observed(box("a")), *silent("a"), *submitted(job(1, gpus))])
    planner = Planner(view)
    assert started_ids(planner.plan(T0)) == []
    planner.advance(ready("a"))
    assert started_ids(planner.plan(T0)) == ["1"]


def test_a_gang_is_not_laid_over_a_silent_node() -> None:
    gang = job(1, 8, gang_size=2, spread=True)
    view = view_of([*observed(box("a"), box("b")), *silent("a"), *submitted(gang)])
    assert nodes_of(view) == {}
    assert nodes_of(view.advance(observed(box("c")))) == {"1": ["b", "c"]}


def test_what_only_a_silent_node_could_serve_waits_and_is_not_refused() -> None:
    view = view_of([*observed(box("a", 8), box("b", 2)), *silent("a")])
    assert impossible(view, job(1, 8).spec.request) is None


def test_nothing_is_impossible_while_a_node_has_not_told_what_it_has() -> None:
    view = view_of([*observed(box("b", 2)), *silent("a")])
    assert impossible(view, job(1, 8).spec.request) is None
    assert impossible(view.advance(ready("a")), job(1, 8).spec.request) is not None


def test_nobody_is_evicted_for_room_on_a_silent_node() -> None:
    view = view_of([*observed(box("a")), *submitted(job(1, 8, priority=9))])
    (start,) = Planner(view).plan(T0).starts
    view = view.advance([*started(start), *silent("a"), *submitted(job(2, 8, priority=1))])
    assert Planner(view).plan(T0).evictions == ()


def test_why_names_the_best_node_and_those_that_take_nothing() -> None:
    view = view_of([*observed(box("a"), box("b")), *silent("a"), *submitted(job(1, 6), job(2, 4))])
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    plan = Planner(view).plan(T0)
    told = explain(view, view.jobs["2"], WaitIndex(plan, view).of(view.jobs["2"]), T0, plan=plan)
    assert "the best node is b, which has 2 free, 6 allocated to job 1 (alice)" in told.sentence
    assert "nothing starts on a (silent)" in told.sentence


def test_why_of_a_gang_names_the_best_node_for_the_member_that_does_not_fit() -> None:
    view = view_of([*observed(box("a"), box("b")), *submitted(job(1, 6), job(2, 8, gang_size=2))])
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    plan = Planner(view).plan(T0)
    told = explain(view, view.jobs["2"], WaitIndex(plan, view).of(view.jobs["2"]), T0, plan=plan)
    assert "it needs 2 times 8 GPUs; the best node for the next member is" in told.sentence


def test_why_says_so_when_no_node_takes_anything() -> None:
    view = view_of([*observed(box("a")), *silent("a"), *submitted(job(1, 0, cpu_milli=1000))])
    plan = Planner(view).plan(T0)
    told = explain(view, view.jobs["1"], WaitIndex(plan, view).of(view.jobs["1"]), T0, plan=plan)
    assert "it needs 1 CPU; nothing starts on a (silent)" in told.sentence


STEPS = st.lists(st.tuples(st.sampled_from(NODES), st.booleans()), max_size=12)


@settings(max_examples=100)
@given(STEPS)
def test_capacity_that_follows_equals_the_state_read_afresh(steps: list[tuple[str, bool]]) -> None:
    draft = ViewDraft(view_of(observed(*(box(name, 2) for name in NODES))))
    capacity = Capacity(draft)
    for name, is_silent in steps:
        for delta in silent(name) if is_silent else ready(name):
            draft.apply([delta])
            capacity.follow(delta)
        assert [capacity.state(one) for one in NODES] == [node_state(draft.view, one) for one in NODES]


@settings(max_examples=100)
@given(STEPS)
def test_a_planner_that_follows_starts_work_on_ready_nodes_alone(steps: list[tuple[str, bool]]) -> None:
    jobs = submitted(*(job(number, gpus) for number, gpus in enumerate((2, 0, 1, 1), start=1)))
    view = view_of([*observed(*(box(name, 2) for name in NODES)), *jobs])
    planner = Planner(view)
    for name, is_silent in steps:
        deltas = silent(name) if is_silent else ready(name)
        view = view.advance(deltas)
        planner.advance(deltas)
        plan = planner.plan(T0)
        used = {member.node for start in plan.starts for member in start.placement.members}
        assert all(view.status(node) is NodeStatus.READY for node in used)
        assert plan.starts == Planner(view).plan(T0).starts


def test_a_node_that_is_heard_again_is_ready() -> None:
    view = view_of([NodeObserved(box("a")), *silent("a")])
    assert view.status("a") is NodeStatus.SILENT
    assert view.advance(ready("a")).status("a") is NodeStatus.READY
