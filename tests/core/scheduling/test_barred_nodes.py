"""Nodes on which no job of a user can run: the planner passes them over for that user alone, and says why."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.fact import NodeRemoved, UsersBarred
from corral.core.model.jobs.container import Container
from corral.core.model.view import View
from corral.core.scheduling.explaining.suggestions import nearest_that_starts
from corral.core.scheduling.explaining.why import WaitIndex, explain
from corral.core.scheduling.forecast import foresee
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, job, observed, started, started_ids, submitted, view_of

NODES = ("a", "b", "c")
WHY = "there is no account alice"


def barred(node: str, *users: str) -> UsersBarred:
    return UsersBarred(node, dict.fromkeys(users, WHY))


def nodes_of(view: View) -> dict[str, list[str]]:
    """The nodes that each job that is started now gets."""
    return {start.job_id: [m.node for m in start.placement.members] for start in Planner(view).plan(T0).starts}


@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_a_node_without_the_account_of_a_user_takes_the_jobs_of_others_alone(gpus: int) -> None:
    two = (job(1, gpus, cpu_milli=1000, user="alice"), job(2, gpus, cpu_milli=1000, user="bob"))
    view = view_of([*observed(box("a"), box("b")), barred("b", "alice"), barred("a", "bob"), *submitted(*two)])
    assert nodes_of(view) == {"1": ["a"], "2": ["b"]}


def test_a_job_waits_for_an_account_and_says_so_and_starts_when_it_is_made() -> None:
    view = view_of([*observed(box("a"), box("b")), *(barred(name, "alice") for name in "ab")])
    view = view.advance(submitted(job(1, 1, user="alice")))
    planner = Planner(view)
    plan = planner.plan(T0)
    assert started_ids(plan) == []
    waiting = view.jobs["1"]
    told = explain(view, waiting, WaitIndex(plan, view).of(waiting), T0, plan=plan)
    assert f"2 nodes cannot run jobs of this user: {WHY}" in told.sentence
    planner.advance([UsersBarred("b", {})])
    assert started_ids(planner.plan(T0)) == ["1"]


def test_neither_a_job_on_a_barred_node_nor_a_smaller_request_there_is_named_as_the_way_to_a_start() -> None:
    view = view_of([*observed(box("a")), *submitted(job(1, 1, user="bob"))])
    (start,) = Planner(view).plan(T0).starts
    waits = submitted(job(2, 8, user="alice"))
    view = view.advance([*started(start, user="bob"), *waits])
    plan = Planner(view).plan(T0)
    assert nearest_that_starts(view, view.jobs["2"].spec, plan, view.jobs["2"]) is not None
    assert foresee(view, T0).in_full("2", held=False).depends_on == "1"
    view = view.advance([barred("a", "alice")])
    plan = Planner(view).plan(T0)
    assert nearest_that_starts(view, view.jobs["2"].spec, plan, view.jobs["2"]) is None
    assert foresee(view, T0).in_full("2", held=False).depends_on is None


def test_nobody_is_evicted_for_room_on_a_node_that_is_barred() -> None:
    view = view_of([*observed(box("a")), *submitted(job(1, 8, priority=9, user="bob"))])
    (start,) = Planner(view).plan(T0).starts
    waits = submitted(job(2, 8, priority=1, user="alice"))
    view = view.advance([*started(start, user="bob"), barred("a", "alice"), *waits])
    assert Planner(view).plan(T0).evictions == ()


def test_a_container_passes_nodes_without_docker_over_and_what_runs_as_a_process_does_not() -> None:
    without = replace(box("a"), no_docker="Docker is not installed there")
    contained = replace(job(1, 1), spec=replace(job(1, 1).spec, container=Container("python")))
    view = view_of([*observed(without, box("b")), *submitted(contained, job(2, 8, user="bob"))])
    assert nodes_of(view) == {"1": ["b"], "2": ["a"]}


def test_a_container_waits_for_docker_and_says_so_and_starts_when_it_is_installed() -> None:
    without = replace(box("a"), no_docker="Docker is not installed there")
    contained = replace(job(1, 1), spec=replace(job(1, 1).spec, container=Container("python")))
    view = view_of([*observed(without), *submitted(contained)])
    planner = Planner(view)
    plan = planner.plan(T0)
    assert started_ids(plan) == []
    waiting = view.jobs["1"]
    told = explain(view, waiting, WaitIndex(plan, view).of(waiting), T0, plan=plan)
    assert "1 node cannot run containers: Docker is not installed there" in told.sentence
    planner.advance(observed(box("a"))[:1])
    assert started_ids(planner.plan(T0)) == ["1"]


def test_a_node_that_leaves_bars_nobody_any_more() -> None:
    view = view_of([*observed(box("a")), barred("a", "alice")])
    assert not view.advance([NodeRemoved("a")]).barred


@settings(max_examples=60, deadline=None)
@given(
    bars=st.dictionaries(st.sampled_from(NODES), st.sets(st.sampled_from(("alice", "bob")))),
    jobs=st.lists(
        st.tuples(st.integers(0, 8), st.integers(1, 3), st.booleans(), st.sampled_from(("alice", "bob"))), max_size=8
    ),
)
def test_no_member_of_any_job_gets_a_node_that_is_barred_to_its_user(
    bars: dict[str, set[str]], jobs: list[tuple[int, int, bool, str]]
) -> None:
    made = [
        job(number, gpus, gang_size=members, spread=spread, user=user, cpu_milli=1)
        for number, (gpus, members, spread, user) in enumerate(jobs, start=1)
    ]
    view = view_of([*observed(*map(box, NODES)), *(barred(name, *users) for name, users in bars.items())])
    view = view.advance(submitted(*made))
    for job_id, nodes in nodes_of(view).items():
        user = view.jobs[job_id].spec.user
        assert not any(user in bars.get(node, ()) for node in nodes)
