"""The extender lets through the nodes that the planner would take, and holds what it has promised for a moment."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.core.model.devices.device import DeviceCondition, HoldingPod, Node, Silence
from corral.core.model.errors import Refused
from corral.core.model.fact import (
    ConditionObserved,
    Delta,
    NodeCordoned,
    NodeObserved,
    NodeRemoved,
    NodeUncordoned,
    SilenceObserved,
)
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.placing.placement_rules import Taint, TaintEffect
from corral.core.model.queues.queue import Limits, Pool, Queue, Quota
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.engines.kubernetes.extender.pod_holds import HOLD_S, SEEN_S
from corral.engines.kubernetes.inventory.occupants import keep_occupant
from tests.core.scheduling.lab import A100, T0, box, idle, job, observed, started, submitted, view_of
from tests.engines.kubernetes.extender.lab import Lab, asking, body, json_of
from tests.engines.kubernetes.manifests import pod

NODES = ("n1", "n2", "n3")


def cluster(*gpus: int, **limits: Any) -> View:
    nodes = [box(name, count) for name, count in zip(NODES, gpus, strict=False)]
    return replace(view_of(observed(*nodes)), limits=Limits(**limits))


def taken(view: View, number: int, gpus: int, node: str, **options: Any) -> list[Delta]:
    """The facts of a job that runs on a node."""
    one = job(number, gpus, node=node, **options)
    asked = view.advance(submitted(one))
    return [*submitted(one), *started(Planner(asked).plan(T0).starts[0])]


def test_nodes_without_room_fail_with_what_the_pod_needs_and_what_they_have() -> None:
    view = cluster(2, 1, 4)
    lab = Lab(view.advance(taken(view, 1, 1, "n1")))
    answer = lab.filter(asking("a", 2))
    assert answer["NodeNames"] == ["n3"]
    assert answer["FailedAndUnresolvableNodes"] == {"n2": "it needs 2 GPUs; the node has 1 such GPU"}
    assert answer["FailedNodes"] == {
        "n1": "it needs 2 GPUs; the node has 1 free, 1 allocated",
        **answer["FailedAndUnresolvableNodes"],
    }


def test_the_answer_follows_the_cluster() -> None:
    view = cluster(1, 1)
    lab = Lab(view)
    assert lab.passed(asking("a")) == ["n1", "n2"]
    lab.views.advance(taken(lab.views.view(), 1, 1, "n1"))
    assert lab.passed(asking("a")) == ["n2"]
    lab.views.advance([NodeCordoned("n2", at=T0, by="eve")])
    assert lab.passed(asking("a")) == []
    lab.views.advance([NodeUncordoned("n2", at=T0, by="eve"), *observed(box("n3", 1))])
    assert lab.passed(asking("a")) == ["n2", "n3"]
    lab.views.advance([NodeRemoved("n3")])
    assert lab.filter(asking("a"), NODES)["NodeNames"] == ["n2"]


def test_a_node_that_the_server_does_not_know_is_not_let_through() -> None:
    answer = Lab(cluster(1)).filter(asking("a"), ["n1", "elsewhere"])
    assert answer["NodeNames"] == ["n1"]
    assert answer["FailedAndUnresolvableNodes"] == {"elsewhere": "Corral does not know this node yet"}


def test_a_quota_keeps_a_pod_off_every_node() -> None:
    view = replace(cluster(4), queues={"default": Queue("default", quota=Quota(devices=1))})
    lab = Lab(view.advance(taken(view, 1, 1, "n1", queue="default")))
    (why,) = lab.filter(asking("a"))["FailedAndUnresolvableNodes"].values()
    assert "queue default" in why


def test_a_pod_that_corral_cannot_serve_is_told_why_at_every_node() -> None:
    odd = asking("a", resourceClaims=[{"name": "x"}])
    (why,) = Lab(cluster(4)).filter(odd)["FailedAndUnresolvableNodes"].values()
    assert why.startswith("resourceClaims: ")


def test_of_two_filters_for_one_last_gpu_one_passes_and_the_other_is_told_of_it() -> None:
    lab = Lab(cluster(1))
    assert lab.passed(asking("a")) == ["n1"]
    answer = lab.filter(asking("b"))
    assert answer["NodeNames"] == []
    assert answer["FailedAndUnresolvableNodes"] == {
        "n1": f"what is free on the node is held for pod team/a, for {HOLD_S:.0f}s at most"
    }
    assert lab.passed(asking("a")) == ["n1"]


def test_a_filter_that_never_binds_holds_nothing_for_long() -> None:
    lab = Lab(cluster(1))
    lab.filter(asking("a"))
    lab.clock.advance(HOLD_S)
    assert lab.passed(asking("b")) == ["n1"]


def test_a_pod_on_its_node_is_not_held_any_more() -> None:
    lab = Lab(cluster(1))
    lab.filter(asking("a"))
    lab.pods.seen = [PodRef("team", "a", "uid-a")]
    assert lab.passed(asking("b")) == []
    lab.clock.advance(SEEN_S)
    assert lab.passed(asking("b")) == ["n1"]


def test_a_pod_that_is_not_bound_lets_go_of_its_node() -> None:
    lab = Lab(cluster(1))
    lab.filter(asking("a"))
    lab.extender.let_go(PodRef("team", "a", "uid-a"))
    assert lab.passed(asking("b")) == ["n1"]


def test_the_node_that_the_planner_would_choose_has_ten_and_is_held() -> None:
    view = cluster(4, 4)
    lab = Lab(view.advance(taken(view, 1, 3, "n2")))
    asked = asking("a")
    chosen = Planner(lab.views.view().advance(submitted(as_job(lab, asked)))).plan(T0).starts[0].placement
    scores = lab.scores(asked, ["n1", "n2"])
    assert scores[chosen.members[0].node] == 10
    assert max(score for name, score in scores.items() if name != chosen.members[0].node) < 10
    assert lab.passed(asking("b", 4)) == ([] if chosen.members[0].node == "n1" else ["n1"])


def test_scores_are_ten_at_most_and_zero_where_there_is_no_room() -> None:
    scores = Lab(cluster(1, 8)).scores(asking("a", 2), ["n1", "n2", "elsewhere"])
    assert scores == {"n1": 0, "n2": 10, "elsewhere": 0}


def victims(*uids: str) -> Mapping[str, Any]:
    return {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}


def preempted(lab: Lab, asked: Mapping[str, Any], **nodes: Any) -> list[str]:
    call = {"Pod": asked, "NodeNameToVictims": None, "NodeNameToMetaVictims": nodes}
    return sorted(json_of(lab.extender.preempt(json.dumps(call).encode()))["NodeNameToMetaVictims"])


def test_a_node_stays_a_candidate_only_if_its_victims_make_room() -> None:
    view = cluster(2, 2)
    one = job(1, 2, node="n1", pods=(PodRef("team", "v", "uid-v"),))
    deltas = [*submitted(one), *started(Planner(view.advance(submitted(one))).plan(T0).starts[0])]
    lab = Lab(view.advance([*deltas, *taken(view, 2, 1, "n2")]))
    stranger = pod("w", "team", gpus=1, node="n2")
    stranger["metadata"]["uid"] = "uid-w"
    occupant = keep_occupant(stranger)
    assert occupant is not None
    lab.pods.occupants["uid-w"] = occupant
    lab.views.advance([held_by(lab, "n2", occupant.pod)])
    assert preempted(lab, asking("a", 2), n1=victims("uid-v"), n2=victims("uid-w")) == ["n1"]
    assert preempted(lab, asking("a", 1), n1=victims("uid-v"), n2=victims("uid-w")) == ["n1", "n2"]


def held_by(lab: Lab, node: str, holder: HoldingPod) -> Delta:
    """A free device of the node has gone to a pod of others."""
    view = lab.views.view()
    free = next(one for one in view.nodes[node].devices if one.uuid not in view.holders)
    return ConditionObserved(DeviceCondition(free.uuid, memory_free_mib=None, utilization_pct=None, pod=holder))


def test_a_victim_that_nobody_knows_fails_the_call() -> None:
    with pytest.raises(Refused, match="no pod on a node has the UID nobody"):
        preempted(Lab(cluster(1)), asking("a"), n1=victims("nobody"))


def as_job(lab: Lab, item: Mapping[str, Any], **request: Any) -> Job:
    _, spec = lab.pods.spec(item)
    return Job("99", 99, replace(spec, request=replace(spec.request, **request)), T0)


# What the planner says


TAINT = Taint("team", "a", TaintEffect.NO_SCHEDULE)


@st.composite
def clusters(draw: st.DrawFn) -> View:
    """Three nodes, some of whose GPUs have gone to jobs and to pods of others, and what a site may have set up."""
    nodes: list[Node] = []
    for name in NODES:
        made = box(name, draw(st.integers(0, 4)), cpus=draw(st.sampled_from([4, 8])), model=A100)
        labels = (("kubernetes.io/hostname", name), ("zone", draw(st.sampled_from("ab"))))
        taints = draw(st.sampled_from([(), (), (TAINT,)]))
        nodes.append(replace(made, labels=labels, taints=taints, most_members=draw(st.sampled_from([2, 110]))))
    view = replace(
        view_of([]),
        queues={
            "default": Queue("default", quota=Quota(devices=draw(st.sampled_from([None, None, 3])))),
            "scored": Queue("scored", policy=draw(st.sampled_from(["fcfs", "corral"]))),
        },
        limits=Limits(max_running_jobs=draw(st.sampled_from([None, None, 2]))),
        pools=draw(st.sampled_from([{}, {}, {"own": Pool("own", ("n1:0",), users=("somebody",))}])),
    )
    view = view.advance(observed(*nodes))
    for number in range(1, draw(st.integers(1, 5))):
        one = job(number, draw(st.integers(0, 2)), cpu_milli=draw(st.sampled_from([0, 2000])), queue="default")
        starts = Planner(view.advance(submitted(one))).plan(T0).starts
        view = view.advance([*submitted(one), *started(starts[0])]) if starts else view
    for node in nodes:
        for device in node.devices:
            if draw(st.integers(0, 4)) == 0:
                view = view.advance([idle(device, pod=HoldingPod("other", "p"))])
    for name in NODES:
        match draw(st.integers(0, 8)):
            case 0:
                view = view.advance([NodeCordoned(name, at=T0, by="eve")])
            case 1:
                view = view.advance([SilenceObserved(name, Silence(T0, "no answer"))])
            case _:
                pass
    return view


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        spec["nodeSelector"] = {"zone": draw(st.sampled_from("abc"))}
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
    if draw(st.integers(0, 3)) == 0:
        term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    queue = draw(st.sampled_from(["default", "scored"]))
    made = asking(
        f"p{draw(st.integers(0, 99))}", draw(st.integers(0, 4)), annotations={"corral.dev/queue": queue}, **spec
    )
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": draw(st.sampled_from(["0", "1", "6"]))}
    return made


def planned(lab: Lab, item: Mapping[str, Any]) -> list[str]:
    """The nodes on which the planner would start the pod now, asked about one after another."""
    view = lab.views.view()
    return [
        name
        for name in sorted(view.nodes)
        if Planner(view.advance(submitted(as_job(lab, item, node=name)))).plan(T0).starts
    ]


def changes(view: View, data: st.DataObject) -> Sequence[Delta]:
    """Something that happens to the cluster between two calls."""
    one = job(50 + len(view.jobs), 1, queue="default")
    starts = Planner(view.advance(submitted(one))).plan(T0).starts
    return data.draw(
        st.sampled_from(
            [
                [NodeCordoned("n1", at=T0, by="eve")],
                [NodeRemoved("n2")],
                [*submitted(one), *started(starts[0])] if starts else [NodeObserved(view.nodes["n3"])],
            ]
        )
    )


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_a_filter_lets_through_the_nodes_on_which_the_planner_would_start_the_pod(data: st.DataObject) -> None:
    lab = Lab(data.draw(clusters()))
    for item in data.draw(st.lists(pods(), min_size=1, max_size=3)):
        assert lab.passed(item) == planned(lab, item)
        lab.clock.advance(HOLD_S)
        lab.views.advance(changes(lab.views.view(), data))
        assert lab.passed(item) == planned(lab, item)
        lab.clock.advance(HOLD_S)


def test_a_call_says_every_node_once() -> None:
    lab = Lab(cluster(1, 2, 3))
    answer = json_of(lab.extender.filter(body(asking("a", 2), NODES)))
    told = [*answer["NodeNames"], *answer["FailedNodes"]]
    assert sorted(told) == sorted(NODES)
