"""Which node a job gets by name, by the labels it prefers, and by the disk it asks for."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.control.submitting.submission_checks import node_notes
from corral.core.model.devices.device import Node
from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Cause
from corral.core.model.view import View
from corral.core.scheduling.explaining.impossible import impossible
from corral.core.scheduling.explaining.phrases import flags_of, need_of
from corral.core.scheduling.explaining.why import WaitIndex, explain
from corral.core.scheduling.placing.start_recheck import verify
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import POLICIES, Policy
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted, view_of

GIB = 1024


def node(name: str, gpus: int = 8, *, disk_gib: int = 0, **labels: str) -> Node:
    return replace(box(name, gpus), labels=tuple(sorted(labels.items())), disk_mib=disk_gib * GIB)


def places(view: View, policy: Policy | None = None) -> dict[str, list[str]]:
    """The nodes of each job that is started now."""
    planner = Planner(view) if policy is None else Planner(view, policy=policy)
    return {start.job_id: [member.node for member in start.placement.members] for start in planner.plan(T0).starts}


def told(view: View, number: str) -> str:
    plan = Planner(view).plan(T0)
    one = view.jobs[number]
    return explain(view, one, WaitIndex(plan, view).of(one), T0, plan=plan).sentence


@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_a_job_that_names_a_node_gets_that_one(gpus: int) -> None:
    view = view_of([*observed(node("a"), node("b"), node("c")), *submitted(job(1, gpus, node="b"))])
    assert places(view) == {"1": ["b"]}


def test_a_job_that_names_a_node_waits_for_it_while_others_are_free() -> None:
    view = view_of([*observed(node("a"), node("b")), *submitted(job(1, 8, node="b"))])
    view = view.advance([*started(Planner(view).plan(T0).starts[0]), *submitted(job(2, 1, node="b"))])
    assert places(view) == {}
    assert "it needs 1 GPU on node b; the best node is b, which has 0 free, 8 allocated to job 1" in told(view, "2")
    assert "With --gpus 1 without --node it would start now." in told(view, "2")


def test_what_is_kept_for_a_job_that_names_a_node_is_kept_there_alone() -> None:
    view = view_of([*observed(node("a"), node("b")), *submitted(job(1, 6, node="b"))])
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    view = view.advance(submitted(job(2, 8, node="b"), job(3, 2), job(4, 8)))
    assert places(view) == {"3": ["a"]}


def test_a_node_that_there_is_not_is_refused_with_the_nearest() -> None:
    view = view_of(observed(node("gpu-01"), node("gpu-02")))
    assert impossible(view, job(1, node="gpu-1").spec.request) == "there is no node gpu-1 here; did you mean 'gpu-01'?"


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_a_job_runs_on_any_of_the_nodes_that_it_names_and_on_none_that_it_excludes(policy: str, gpus: int) -> None:
    nodes = observed(node("a"), node("b"), node("c"))
    wanted = submitted(job(1, gpus, nodes=("b", "c")), job(2, gpus, excluded_nodes=("a", "b")))
    placed = places(view_of([*nodes, *wanted[:1]]), POLICIES[policy])
    assert placed in ({"1": ["b"]}, {"1": ["c"]})
    assert places(view_of([*nodes, *wanted[1:]]), POLICIES[policy]) == {"2": ["c"]}


def test_a_gang_keeps_off_the_nodes_that_it_excludes() -> None:
    nodes = observed(node("a"), node("b"), node("c"))
    gang = job(1, 8, gang_size=2, spread=True, excluded_nodes=("b",))
    assert places(view_of([*nodes, *submitted(gang)])) == {"1": ["a", "c"]}


def test_a_start_on_an_excluded_node_is_not_committed() -> None:
    (start,) = Planner(view_of([*observed(node("a")), *submitted(job(1, 1))])).plan(T0).starts
    misfit = verify(view_of([*observed(node("a")), *submitted(job(1, 1, excluded_nodes=("a",)))]), start)
    assert misfit is not None
    assert misfit.cause is Cause.NODE_NAME


def test_who_waits_is_told_which_nodes_it_excludes_itself() -> None:
    view = view_of([*observed(node("a"), node("b")), *submitted(job(1, 8, excluded_nodes=("a",)))])
    view = view.advance([*started(Planner(view).plan(T0).starts[0]), *submitted(job(2, 1, excluded_nodes=("a", "z")))])
    assert places(view) == {}
    sentence = told(view, "2")
    assert "it needs 1 GPU not on node a or z; the best node is b, which has 0 free, 8 allocated to job 1" in sentence
    assert "it excludes a" in sentence


def test_nodes_that_leave_none_are_refused_with_what_to_leave_out() -> None:
    view = view_of(observed(node("a"), node("b")))
    assert impossible(view, Request(excluded_nodes=("a", "b"))) == "all nodes here are excluded: a and b; exclude fewer"
    assert impossible(view, Request(node="a", excluded_nodes=("a",))) == (
        "all nodes that it names are excluded: a; leave one of them out of the excluded nodes"
    )
    assert impossible(view, Request(nodes=("c", "d"))) == "there is no node c here; known: a, b"
    assert impossible(view, Request(nodes=("c", "b"))) is None


def test_nodes_that_are_named_and_not_here_are_told() -> None:
    view = view_of(observed(node("gpu-01"), node("gpu-02")))
    assert node_notes(view, Request(nodes=("gpu-01", "gpu-3"), excluded_nodes=("gpu-1",))) == (
        "there is no node gpu-3 here, which the job may run on; did you mean 'gpu-02'?",
        "there is no node gpu-1 here, which the job excludes; did you mean 'gpu-01'?",
    )


def test_more_than_the_named_node_has_is_refused_with_what_it_has() -> None:
    view = view_of(observed(node("a", 8), node("b", 2)))
    assert impossible(view, job(1, 4, node="b").spec.request) == "node b has 2 GPUs; the most you can ask for is 2 GPUs"


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_preferred_labels_come_first_among_nodes_that_fit(policy: str, gpus: int) -> None:
    nodes = observed(node("a", zone="x"), node("b", zone="y", disk="ssd"), node("c", zone="y"))
    wanted = job(1, gpus, prefers=(("disk", "ssd"), ("zone", "y")), cpu_milli=1000)
    assert places(view_of([*nodes, *submitted(wanted)]), POLICIES[policy]) == {"1": ["b"]}


def test_a_preference_keeps_nobody_waiting() -> None:
    nodes = observed(node("a", zone="x"), node("b", 2, zone="y"))
    assert places(view_of([*nodes, *submitted(job(1, 4, prefers=(("zone", "y"),)))])) == {"1": ["a"]}


def test_a_gang_prefers_too_and_on_one_node_as_a_whole() -> None:
    nodes = observed(node("a", zone="x"), node("b", 4, zone="y"), node("c", 4, zone="y"))
    zone = (("zone", "y"),)
    assert places(view_of([*nodes, *submitted(job(1, 4, gang_size=2, prefers=zone))])) == {"1": ["b", "c"]}
    assert places(view_of([*nodes, *submitted(job(1, 2, gang_size=2, one_node=True, prefers=zone))])) == {
        "1": ["b"] * 2
    }


def test_disk_is_counted_as_memory_is() -> None:
    nodes = observed(node("a", disk_gib=100), node("b", disk_gib=150))
    jobs = submitted(*(job(number, 1, disk_mib=80 * GIB) for number in (1, 2, 3)))
    view = view_of([*nodes, *jobs])
    assert sorted(name for names in places(view).values() for name in names) == ["a", "b"]
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    assert "it needs 1 GPU and 80G of disk; the best node is b, which has 70G of 150G of disk free" in told(view, "3")


def test_more_disk_than_any_node_has_is_refused_with_the_most_there_is() -> None:
    view = view_of(observed(node("a", disk_gib=100)))
    never = impossible(view, job(1, disk_mib=200 * GIB).spec.request)
    assert never == "no node has 200G of disk; the most you can ask for is 100G"


def test_a_request_says_what_it_needs_and_how_to_ask_for_it() -> None:
    request = job(1, 2, node="b", disk_mib=10 * GIB).spec.request
    assert need_of(request) == "2 GPUs on node b and 10G of disk"
    assert flags_of(request) == "--gpus 2 --node b"
    elsewhere = job(1, 0, nodes=("a", "b"), excluded_nodes=("c",), cpu_milli=2000).spec.request
    assert need_of(elsewhere) == "2 CPUs on node a or b not on node c"
    assert flags_of(elsewhere) == "--gpus 0 --node a,b --exclude c"


AMOUNTS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 60), st.integers(0, 3)), max_size=8)


@settings(max_examples=100)
@given(AMOUNTS)
def test_no_node_gives_more_disk_than_it_has_and_no_job_leaves_the_node_it_names(
    wanted: list[tuple[str | None, int, int]],
) -> None:
    jobs = [job(n, gpus, node=name, disk_mib=gib * GIB) for n, (name, gib, gpus) in enumerate(wanted, start=1)]
    view = view_of([*observed(node("a", disk_gib=100), node("b", disk_gib=100)), *submitted(*jobs)])
    used = {"a": 0, "b": 0}
    for start in Planner(view).plan(T0).starts:
        request = view.jobs[start.job_id].spec.request
        for member in start.placement.members:
            assert request.node in (None, member.node)
            assert member.disk_mib == request.disk_mib
            used[member.node] += member.disk_mib
    assert all(mib <= 100 * GIB for mib in used.values())
