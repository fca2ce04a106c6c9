"""Jobs whose rules rank nodes by idle devices get the node with most of them; the queue's ranking decides otherwise."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.device import DeviceCondition, LastUse, Node
from corral.core.model.fact import ConditionObserved, Delta, NodeObserved
from corral.core.model.jobs.job import Job
from corral.core.model.placing.placement_rules import (
    NAME_FIELD,
    IdleFirst,
    LabelExpression,
    Operator,
    PlacementRules,
    PreferredNodes,
)
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, job, started, submitted, view_of

USUAL = IdleFirst()


def used(node: Node, *uses: float | None) -> list[Delta]:
    """A node whose devices have these readings, in percent of their time; None is no reading."""
    readings = [None if pct is None else LastUse(pct, 0.0) for pct in (*uses, *[None] * len(node.devices))]
    conditions = [DeviceCondition(one.uuid, use=use) for one, use in zip(node.devices, readings, strict=False)]
    return [NodeObserved(node), *map(ConditionObserved, conditions)]


def service(number: int, gpus: int = 1, *, prefers: str | None = None, rule: IdleFirst = USUAL, **more: Any) -> Job:
    liked = () if prefers is None else (PreferredNodes(50, (LabelExpression(NAME_FIELD, Operator.IN, (prefers,)),)),)
    rules = PlacementRules(idle_first=rule, preferred_nodes=liked)
    return job(number, gpus, rules=rules, **more)


def places(view: View) -> dict[str, list[str]]:
    return {one.job_id: [member.node for member in one.placement.members] for one in Planner(view).plan(T0).starts}


def test_most_idle_devices_then_the_lower_use_then_the_name_decide() -> None:
    nodes = [*used(box("a", 2)), *used(box("b", 4)), *used(box("c", 4))]
    assert places(view_of([*nodes, *submitted(service(1))])) == {"1": ["b"]}
    nodes = [*used(box("a", 2), 20, 20), *used(box("b", 2), 10, 10)]
    assert places(view_of([*nodes, *submitted(service(1))])) == {"1": ["b"]}
    nodes = [*used(box("a", 8), *[90] * 6, 0, 0), *used(box("b", 3))]
    assert places(view_of([*nodes, *submitted(service(1))])) == {"1": ["b"]}


def test_what_was_started_before_in_the_same_cycle_is_no_longer_idle() -> None:
    nodes = [*used(box("a", 4)), *used(box("b", 3))]
    found = places(view_of([*nodes, *submitted(service(1, 2), service(2, 2), service(3, 2))]))
    assert found == {"1": ["a"], "2": ["b"], "3": ["a"]}


def test_where_no_node_has_enough_idle_devices_the_queue_decides_and_nothing_waits_for_idleness() -> None:
    nodes = [*used(box("a", 2), 90, 90), *used(box("b", 2), 80, 80)]
    assert list(places(view_of([*nodes, *submitted(service(1, 2))]))) == ["1"]
    busy = view_of([*used(box("a", 2)), *submitted(service(1, 2))])
    (start,) = Planner(busy).plan(T0).starts
    assert places(busy.advance([*started(start), *submitted(service(2, 2))])) == {}


def test_a_preferred_node_comes_first_if_it_has_enough() -> None:
    nodes = [*used(box("a", 8)), *used(box("b", 2))]
    assert places(view_of([*nodes, *submitted(service(1, 2, prefers="b"))])) == {"1": ["b"]}
    assert places(view_of([*nodes, *submitted(service(1, 4, prefers="b"))])) == {"1": ["a"]}


def test_a_node_that_is_free_as_a_whole_is_broken_last_if_the_rule_says_so() -> None:
    keeping = IdleFirst(keeps_whole=True)
    nodes = [*used(box("a", 8)), *used(box("b", 8))]
    view = view_of([*nodes, *submitted(service(1, 3))])
    (start,) = Planner(view).plan(T0).starts
    taken = start.placement.members[0].node
    view = view.advance([*started(start), *submitted(service(2, rule=keeping), service(3, 8, rule=keeping))])
    assert places(view)["2"] == [taken]
    assert places(view)["3"] == [{"a": "b", "b": "a"}[taken]]


def test_a_gang_starts_on_idle_nodes_all_or_none() -> None:
    nodes = [*used(box("a", 8), *[90] * 8), *used(box("b", 8)), *used(box("c", 8))]
    assert places(view_of([*nodes, *submitted(service(1, 8, gang_size=2))])) == {"1": ["b", "c"]}
    assert places(view_of([*nodes, *submitted(service(1, 8, gang_size=4))])) == {}
    assert len(places(view_of([*nodes, *submitted(service(1, 8, gang_size=3))]))["1"]) == 3


def test_a_planner_that_was_advanced_decides_as_a_new_one() -> None:
    view = view_of([*used(box("a", 4)), *used(box("b", 2))])
    planner = Planner(view)
    planner.plan(T0)
    news = [*used(box("a", 4), 90, 90, 90, 90), *submitted(service(1))]
    planner.advance(news)
    assert planner.plan(T0).starts == Planner(view.advance(news)).plan(T0).starts
    assert [member.node for one in planner.plan(T0).starts for member in one.placement.members] == ["b"]


@given(
    free=st.lists(st.integers(1, 8), min_size=1, max_size=5),
    asked=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    keeps_whole=st.booleans(),
)
def test_jobs_of_one_cycle_get_what_they_would_get_one_after_the_other(
    free: list[int], asked: list[int], keeps_whole: bool
) -> None:
    rule = IdleFirst(keeps_whole=keeps_whole)
    bare = view_of([delta for number, gpus in enumerate(free) for delta in used(box(f"n{number}", gpus))])
    jobs = [service(number, gpus, rule=rule) for number, gpus in enumerate(asked, 1)]
    together, apart, view = places(bare.advance(submitted(*jobs))), dict[str, list[str]](), bare
    for one in jobs:
        view = view.advance(submitted(one))
        for start in Planner(view).plan(T0).starts:
            apart[start.job_id] = [member.node for member in start.placement.members]
            view = view.advance(started(start))
    assert {number: together.get(number) for number in apart} == apart or keeps_waiting(together, apart)


def keeps_waiting(together: dict[str, list[str]], apart: dict[str, list[str]]) -> bool:
    """Whether both differ only behind the first job that has no place: what is kept for that one is another matter."""
    for number in sorted({*together, *apart}, key=int):
        if number not in together or number not in apart:
            return True
        if together[number] != apart[number]:
            return False
    return True
