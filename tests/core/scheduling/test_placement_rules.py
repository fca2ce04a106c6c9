"""Plans keep the rules of jobs: taints, labels, neighbours and spreading, as a plain evaluation of them says."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.core.model.devices.device import Node
from corral.core.model.fact import Delta
from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.placing.fit import Cause
from corral.core.model.placing.placement_rules import (
    LabelExpression,
    Operator,
    PlacementRules,
    PreferredNeighbours,
    PreferredNodes,
    Resident,
    Selector,
    Spread,
    Taint,
    Toleration,
    labels_of,
    meets,
)
from corral.core.model.placing.plan import Plan, Start
from corral.core.model.view import View
from corral.core.scheduling.explaining.why import WaitIndex, explain
from corral.core.scheduling.forecast import expected_starts
from corral.core.scheduling.placing.start_recheck import verify
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.state import neighbours
from corral.core.scheduling.state.neighbours import Neighbours
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted

INFRA = Taint("dedicated", "infra")
NODES = [
    replace(box("a", 2), labels=(("zone", "1"),), most_members=2),
    replace(box("b", 2), labels=(("zone", "2"),), others=(Resident((("app", "db"),)),)),
    replace(box("c", 2), labels=(("zone", "2"),), taints=(INFRA,)),
]


def app(name: str) -> Selector:
    return (LabelExpression("app", Operator.IN, (name,)),)


def zone(number: str) -> Selector:
    return (LabelExpression("zone", Operator.IN, (number,)),)


def on_node(name: str) -> Selector:
    return (LabelExpression("kubernetes.io/hostname", Operator.IN, (name,)),)


def planned(*jobs: Job, view: View | None = None) -> tuple[View, Plan]:
    view = (view or View().advance(observed(*NODES))).advance(submitted(*jobs))
    return view, Planner(view).plan(T0)


def nodes_of(plan: Plan) -> dict[str, list[str]]:
    return {one.job_id: [member.node for member in one.placement.members] for one in plan.starts}


def why(view: View, plan: Plan, job_id: str) -> str:
    one = view.jobs[job_id]
    return explain(view, one, WaitIndex(plan, view).of(one), T0, plan=plan).sentence


def running(view: View, plan: Plan) -> View:
    deltas: list[Delta] = [delta for start in plan.starts for delta in started(start)]
    return view.advance(deltas)


def test_only_what_tolerates_it_starts_on_a_node_with_a_taint() -> None:
    tolerant = PlacementRules((Toleration("dedicated"),), nodes=(zone("2"),))
    _, plan = planned(*(job(n, 2, rules=tolerant) for n in (1, 2)), job(3, 2), job(4, 2))
    assert {one: nodes for one, (nodes,) in nodes_of(plan).items()} == {"1": "b", "2": "c", "3": "a"}


def test_a_node_gives_places_to_so_many_members_whatever_else_is_free() -> None:
    on_a = PlacementRules(nodes=(zone("1"),))
    view, plan = planned(*(job(n, 0, rules=on_a) for n in (1, 2, 3)))
    assert sorted(nodes_of(plan)) == ["1", "2"]
    assert "1 node has no room for another pod" in why(running(view, plan), plan, "3")
    gang = job(4, 1, gang_size=2, rules=on_a)
    assert nodes_of(planned(gang)[1]) == {"4": ["a", "a"]}
    assert nodes_of(planned(job(3, 0, rules=on_a), gang)[1]) == {"3": ["a"]}


def test_a_preferred_node_is_taken_where_it_fits() -> None:
    for selector in (zone("2"), on_node("b")):
        rules = PlacementRules(preferred_nodes=(PreferredNodes(1, selector),))
        assert nodes_of(planned(job(1, 1, rules=rules))[1]) == {"1": ["b"]}


def test_a_job_runs_with_what_it_must_be_with_and_the_first_of_its_kind_anywhere() -> None:
    with_db = PlacementRules(near=(app("db"),))
    assert nodes_of(planned(job(1, 1, rules=with_db))[1]) == {"1": ["b"]}
    own_kind = PlacementRules(tags=(("app", "web"),), near=(app("web"),))
    _, plan = planned(*(job(n, 1, rules=own_kind) for n in (1, 2, 3)))
    assert len({node for nodes in nodes_of(plan).values() for node in nodes}) == 1
    assert len(plan.starts) == 2
    alone = PlacementRules(near=(app("nothing"),))
    view, plan = planned(job(1, 1, rules=alone))
    assert not plan.starts
    assert "no running job that it must be with" in why(running(view, plan), plan, "1")


def test_keeping_apart_holds_for_both_sides() -> None:
    lonely = PlacementRules(apart=(app("db"), app("web")))
    web = PlacementRules(tags=(("app", "web"),))
    _, plan = planned(job(1, 1, rules=lonely))
    assert nodes_of(plan) == {"1": ["a"]}
    view, plan = planned(job(1, 1, rules=lonely))
    _, plan = planned(job(2, 1, rules=web), view=running(view, plan))
    assert nodes_of(plan) == {"2": ["b"]}
    _, plan = planned(job(3, 1), view=running(*planned(job(1, 1, rules=lonely))))
    assert len(plan.starts) == 1, "it has no tag that anything is kept apart from"


def depends_on(view: View, job_id: str) -> str | None:
    return expected_starts(view, T0, [job_id])[job_id].depends_on


def test_what_must_be_apart_depends_on_those_it_is_kept_from_and_on_nobody_else() -> None:
    apart = PlacementRules(tags=(("app", "web"),), apart=(app("web"),))
    nodes = View().advance(observed(box("a", 4), box("b", 4)))
    view = running(*planned(job(1, 1), view=nodes))
    view = running(*planned(job(2, 1, rules=apart), job(3, 1, rules=apart), view=view))
    view, plan = planned(job(4, 1, rules=apart), view=view)
    assert not plan.starts
    # The unrelated job 1 holds a GPU too, and its end would change nothing.
    assert depends_on(view, "4") == "2"
    assert "Its start time is unknown: it depends on job 2" in why(view, plan, "4")


def test_where_a_node_without_such_neighbours_is_full_its_jobs_are_in_the_way_too() -> None:
    apart = PlacementRules(tags=(("app", "web"),), apart=(app("web"),))
    view = running(*planned(job(1, 4, node="b"), view=View().advance(observed(box("a", 4), box("b", 4)))))
    view = running(*planned(job(2, 1, rules=apart), view=view))
    view, _ = planned(job(3, 1, rules=apart), view=view)
    assert depends_on(view, "3") == "1"


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        (replace(box("a", 4), others=(Resident((("app", "web"),), foreign=True),)), {"apart": (app("web"),)}),
        (replace(box("a", 4), taints=(INFRA,)), {}),
        (box("a", 4), {"near": (app("nothing"),)}),
    ],
    ids=["kept off by what others run", "tainted", "nobody to be with"],
)
def test_where_no_end_of_a_job_helps_none_is_named(node: Node, wanted: dict[str, tuple[Selector, ...]]) -> None:
    tolerant = PlacementRules((Toleration(),))
    view = running(*planned(job(1, 1, rules=tolerant), view=View().advance(observed(node))))
    view, plan = planned(job(2, 1, rules=PlacementRules(**wanted)), view=view)  # type: ignore[arg-type]
    assert "1" in {one.job_id for one in view.allocations.values()}
    assert not plan.starts
    assert depends_on(view, "2") is None
    assert "depends on" not in why(view, plan, "2")


def test_what_others_keep_off_their_node_stays_off_and_only_that() -> None:
    keeps_off = (app("web"), (LabelExpression("team", Operator.NOT_IN, ("us",)),))
    theirs = Resident((("app", "db"),), keeps_off, foreign=True)
    nodes = [box("a", 1), replace(box("b", 8), others=(replace(theirs, apart=theirs.apart[:1]),))]
    web = PlacementRules(tags=(("app", "web"),))
    view = View().advance(observed(*nodes))
    _, plan = planned(job(1, 1, rules=web), job(2, 1, rules=web), job(3, 8), view=view)
    assert nodes_of(plan) == {"1": ["a"], "3": ["b"]}
    all_off = View().advance(observed(nodes[0], replace(nodes[1], others=(theirs,))))
    assert nodes_of(planned(job(1, 1), job(2, 1), view=all_off)[1]) == {"1": ["a"]}


def test_where_nothing_has_rules_nobody_looks_at_what_runs_on_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_at(*_: object) -> None:
        raise AssertionError("what runs on the node was looked at")

    monkeypatch.setattr(Neighbours, "misfit", looked_at)
    monkeypatch.setattr(neighbours, "resident_of", looked_at)
    view = running(*planned(job(1, 1), view=View().advance(observed(box("a", 4), box("b", 4)))))
    view, plan = planned(job(2, 1), job(3, 1, gang_size=2, spread=True), job(4, 1, node="a"), view=view)
    assert len(plan.starts) == 3
    assert [verify(view, start) for start in plan.starts] == [None] * 3
    with pytest.raises(AssertionError, match="looked at"):
        planned(job(5, 1, avoid_jobs=("x",)), view=view)


def test_nothing_is_kept_free_for_a_job_that_no_end_of_another_lets_in() -> None:
    tolerant = PlacementRules((Toleration("dedicated"),))
    view = View().advance(observed(replace(box("c", 2), taints=(INFRA,))))
    _, plan = planned(job(1, 1), job(2, 2, rules=tolerant), view=view)
    assert nodes_of(plan) == {"2": ["c"]}


def test_members_of_a_gang_keep_apart_from_each_other() -> None:
    apart = PlacementRules((Toleration(),), tags=(("app", "x"),), apart=(app("x"),))
    _, plan = planned(job(1, 1, gang_size=3, rules=apart))
    assert sorted(nodes_of(plan)["1"]) == ["a", "b", "c"]
    assert not planned(job(1, 1, gang_size=4, rules=apart))[1].starts


def test_what_had_better_be_elsewhere_is_put_elsewhere_and_still_starts_where_nothing_else_is_free() -> None:
    wish = PlacementRules(tags=(("app", "x"),), preferred_neighbours=(PreferredNeighbours(-1, app("x")),))
    _, plan = planned(*(job(n, 1, rules=wish) for n in range(1, 5)))
    assert Counter(node for nodes in nodes_of(plan).values() for node in nodes) == {"a": 2, "b": 2}
    assert len({nodes[0] for nodes in list(nodes_of(plan).values())[:2]}) == 2


def test_jobs_are_spread_by_no_more_than_they_allow() -> None:
    even = PlacementRules(tags=(("app", "x"),), spread=(Spread(app("x"), 1),))
    view, plan = planned(*(job(n, 0, rules=even) for n in range(1, 6)))
    # The tainted node counts with 0, as it does for Kubernetes.
    assert Counter(nodes[0] for nodes in nodes_of(plan).values()) == {"a": 1, "b": 1}
    assert "more of its kind than others" in why(running(view, plan), plan, "5")


def test_a_start_is_verified_by_the_rules_that_decided_it() -> None:
    lonely = PlacementRules(apart=(app("web"),))
    web = PlacementRules(tags=(("app", "web"),))
    view = running(*planned(job(1, 1, rules=lonely, node="a")))
    view = view.advance(submitted(job(2, 1, rules=web), job(3, 1, node="b"), job(4, 1), job(5, 1, avoid_jobs=("x",))))

    def verified(job_id: str, node: str, slot: int = 1) -> Cause | None:
        placement = Placement((Member(node, (Grant(f"GPU-{node}-{slot}", 1000),)),))
        misfit = verify(view, Start(job_id, placement, "test"))
        return None if misfit is None else misfit.cause

    assert verified("2", "a") is Cause.ANTI_AFFINITY
    assert verified("2", "b") is None
    assert verified("3", "a") is Cause.NODE_NAME
    assert verified("4", "c") is Cause.TAINT
    assert verified("5", "a") is None


rules_drawn = st.builds(
    PlacementRules,
    tolerations=st.sampled_from([(), (Toleration("dedicated"),)]),
    nodes=st.sampled_from([(), (), (zone("2"),), (zone("1"), on_node("c"))]),
    preferred_nodes=st.sampled_from([(), (PreferredNodes(3, zone("2")),)]),
    tags=st.sampled_from([(), (("app", "web"),), (("app", "db"),)]),
    near=st.sampled_from([(), (), (), (app("db"),), (app("web"),)]),
    apart=st.sampled_from([(), (), (app("web"),), (app("db"),)]),
    spread=st.sampled_from([(), (), (), (Spread(app("web"), 1),), (Spread(app("db"), 2),)]),
)
wishes = st.tuples(st.integers(0, 2), st.sampled_from([None, None, *"abc"]), rules_drawn | st.none())


def kept(view: View, start: Start) -> bool:
    """Whether one start keeps every rule, evaluated plainly over all that runs."""
    request = view.jobs[start.job_id].spec.request
    rules = request.rules or PlacementRules()
    (member,) = start.placement.members
    node, own = view.nodes[member.node], dict(rules.tags)
    on: dict[str, list[Resident]] = {name: list(one.others) for name, one in view.nodes.items()}
    places = Counter[str]()
    for allocation in view.allocations.values():
        theirs = view.jobs[allocation.job_id].spec.request.rules or PlacementRules()
        for one in allocation.placement.members:
            on[one.node].append(Resident(theirs.tags, theirs.apart))
            places[one.node] += 1
    here = [dict(one.tags) for one in on[node.name]]

    def matching(name: str, selector: Selector) -> int:
        return sum(meets(selector, dict(one.tags)) for one in on[name])

    allowed = [
        name
        for name, one in view.nodes.items()
        if not rules.nodes or any(meets(selector, labels_of(one.labels, name)) for selector in rules.nodes)
    ]
    anywhere = any(all(meets(near, dict(one.tags)) for near in rules.near) for ones in on.values() for one in ones)
    return (
        request.node in (None, node.name)
        and node.name in allowed
        and all(any(one.covers(taint) for one in rules.tolerations) for taint in node.taints)
        and (node.most_members is None or places[node.name] < node.most_members)
        and not any(meets(selector, tags) for selector in rules.apart for tags in here)
        and not any(meets(selector, own) for one in on[node.name] for selector in one.apart)
        and (
            not rules.near
            or any(all(meets(near, tags) for near in rules.near) for tags in here)
            or (not anywhere and all(meets(near, own) for near in rules.near))
        )
        and all(
            matching(node.name, one.selector)
            + meets(one.selector, own)
            - min(matching(n, one.selector) for n in allowed)
            <= one.max_skew
            for one in rules.spread
            if request.node is None
        )
    )


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(wishes, min_size=1, max_size=8))
def test_every_start_of_a_plan_keeps_all_rules_and_passes_the_test_at_its_commit(
    drawn: list[tuple[int, str | None, PlacementRules | None]],
) -> None:
    view, plan = planned(*(job(n, gpus, node=node, rules=rules) for n, (gpus, node, rules) in enumerate(drawn, 1)))
    for start in plan.starts:
        assert kept(view, start)
        assert verify(view, start) is None
        view = view.advance(started(start))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(rules_drawn | st.none(), st.lists(wishes, max_size=5))
def test_a_job_waits_only_where_a_plain_search_finds_no_node_either(
    rules: PlacementRules | None, drawn: list[tuple[int, str | None, PlacementRules | None]]
) -> None:
    view = running(*planned(*(job(n, gpus, rules=theirs) for n, (gpus, _, theirs) in enumerate(drawn, 2))))
    view = replace(view, jobs={one.job_id: view.jobs[one.job_id] for one in view.allocations.values()})
    view, plan = planned(job(1, 0, rules=rules), view=view)
    possible = [name for name in "abc" if kept(view, Start("1", Placement((Member(name, ()),)), "test"))]
    assert bool(plan.starts) is bool(possible)
