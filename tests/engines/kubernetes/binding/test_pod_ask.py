"""A pod's JSON becomes a request, or is refused in words."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.placing.placement_rules import (
    NAME_FIELD,
    NAMESPACE_TAG,
    IdleFirst,
    LabelExpression,
    Operator,
    PlacementRules,
    Spread,
    TaintEffect,
    Toleration,
    allows,
    labels_of,
    meets,
)
from corral.engines.kubernetes.binding.gangs import Gangs, jobset_size, refuse_different
from corral.engines.kubernetes.binding.pod_ask import PodAsk, PodGang, is_gated, read_ask
from corral.engines.kubernetes.binding.pods_of_others import PodOfOthers, keep
from corral.engines.kubernetes.binding.volumes import claim_refusal, volume_refusal
from corral.engines.kubernetes.inventory.pod_placement_rules import placement_rules
from tests.engines.kubernetes.manifests import pod

HOSTNAME = "kubernetes.io/hostname"
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
WEB: dict[str, Any] = {"matchLabels": {"app": "web"}}


def ask(
    annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, *, gpus: int = 1, **spec: Any
) -> PodAsk:
    item = pod("p", "team", gpus=gpus, **spec)
    item["metadata"] |= {"uid": "u1", "annotations": annotations or {}, "labels": labels or {}}
    return read_ask(item)


def rules(labels: dict[str, str] | None = None, **spec: Any) -> PlacementRules:
    return placement_rules(spec, labels or {}, "team")


def test_amounts_are_those_that_kubernetes_counts() -> None:
    containers = [
        {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "2"}}},
        {"name": "b", "resources": {"requests": {"cpu": "1", "memory": "1", "ephemeral-storage": "10Mi"}}},
    ]
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    request = ask(containers=containers, initContainers=[sidecar], overhead={"cpu": "50m"}).request
    assert (request.devices, request.cpu_milli, request.host_memory_mib, request.disk_mib) == (2, 1650, 1025, 10)


def test_annotations_say_queue_project_and_priority_and_labels_of_others_name_queues() -> None:
    noted = {"corral.dev/queue": "research", "corral.dev/project": "llm", "corral.dev/priority": "3"}
    found = ask(noted, {"kueue.x-k8s.io/queue-name": "other"})
    assert (found.queue, found.project, found.priority) == ("research", "llm", 3)
    assert ask(labels={"kueue.x-k8s.io/queue-name": "night"}).queue == "night"
    assert ask(labels={"kai.scheduler/queue": "team-a"}).queue == "team-a"
    assert ask(activeDeadlineSeconds=600).time_limit_s == 600.0


def test_a_pod_may_name_its_job_and_have_nodes_ranked_by_their_idle_gpus() -> None:
    found = ask({"corral.dev/name": "chat", "corral.dev/idle-first": "20, 40.5"})
    assert found.name == "chat"
    assert found.request.rules is not None
    assert found.request.rules.idle_first == IdleFirst(20, 40.5)
    last = ask({"corral.dev/idle-first": "30,50,whole-nodes-last"}).request.rules
    assert last is not None
    assert last.idle_first == IdleFirst(keeps_whole=True)
    plain = ask().request.rules
    assert plain is not None
    assert plain.idle_first is None


@pytest.mark.parametrize(
    "written", ["", "30", "30,x", "30,nan", "30,101", "-1,50", "30,50,all", "30,50,,", "1,2,3,4,5"]
)
def test_a_ranking_that_makes_no_sense_is_refused(written: str) -> None:
    with pytest.raises(Refused, match="is no ranking; write two percentages, as 30,50"):
        ask({"corral.dev/idle-first": written})


def test_gangs_are_named_by_annotations_pod_groups_and_jobsets() -> None:
    assert ask({"corral.dev/gang": "g", "corral.dev/gang-size": "4"}).gang == PodGang("team", "g", 4)
    group = ask({"kueue.x-k8s.io/pod-group-total-count": "2"}, {"kueue.x-k8s.io/pod-group-name": "k"})
    assert group.gang == PodGang("team", "k", 2)
    assert ask(labels={"jobset.sigs.k8s.io/jobset-name": "js"}).gang == PodGang("team", "js", None)


@pytest.mark.parametrize(
    ("annotations", "spec", "words"),
    [
        ({"gpu-fraction": "0.5"}, {}, "gpu-fraction: it asks for whole GPUs, too"),
        ({"corral.dev/gang": "g"}, {}, "corral.dev/gang: it needs corral.dev/gang-size"),
        ({"corral.dev/gang-size": "2"}, {}, "corral.dev/gang-size: it needs corral.dev/gang"),
        ({"corral.dev/gang": "g", "corral.dev/gang-size": "0"}, {}, "0 is not a size of a gang"),
        ({"corral.dev/gang": "g", "corral.dev/gang-size": "1000000000"}, {}, "1000000000 is not a size of a gang"),
        ({"corral.dev/gang": "g", "corral.dev/gang-size": "many"}, {}, "'many' is not a whole number"),
        ({"corral.dev/priority": "high"}, {}, "'high' is not a whole number"),
        ({}, {"resourceClaims": [{"name": "gpu"}]}, "resourceClaims: Corral does not understand this field"),
        ({}, {"workloadRef": {"name": "w"}}, "workloadRef: Corral does not understand this field"),
        ({}, {"containers": [{"name": "a", "ports": [{"hostPort": 80}]}]}, "hostPort: the container a"),
        ({}, {"containers": [{"resources": {"requests": {"rdma/hca": "1"}}}]}, "does not count rdma/hca"),
        ({}, {"containers": [{"resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}]}, "nvidia.com/gpu.shared"),
        ({}, {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}, "'lots' is no quantity"),
        ({}, {"volumes": [{"name": "v", "awsElasticBlockStore": {}}]}, "awsElasticBlockStore"),
        ({}, {"tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]}, "tolerations: Corral does not"),
    ],
)
def test_what_is_not_understood_is_refused_in_words(
    annotations: dict[str, str], spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words.replace(".", r"\.").replace("(", r"\(")):
        ask(annotations, **spec)


def test_claims_are_looked_at_and_those_with_a_place_are_refused() -> None:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "scratch", "ephemeral": {}},
        {"name": "tmp", "emptyDir": {}},
    ]
    assert ask(volumes=volumes).claims == ("c", "p-scratch")
    assert claim_refusal({"metadata": {"name": "c"}, "spec": {"volumeName": "pv"}}) is None
    assert "has no volume yet" in (claim_refusal({"metadata": {"name": "c"}, "spec": {}}) or "")
    alone = {"metadata": {"name": "c"}, "spec": {"volumeName": "pv", "accessModes": ["ReadWriteOncePod"]}}
    assert "one pod alone" in (claim_refusal(alone) or "")
    assert volume_refusal({"spec": {}}) is None
    assert "some nodes only" in (volume_refusal({"spec": {"nodeAffinity": {"required": {"t": 1}}}}) or "")


def kept(item: dict[str, Any], scheduler: str = "corral") -> PodOfOthers:
    found = keep({**item, "spec": {**item["spec"], "schedulerName": scheduler}}, scheduler)
    assert found is not None
    return found


def test_a_pod_of_another_scheduler_is_not_ours_to_bind() -> None:
    assert keep(pod("p", "team"), "corral") is None


def test_a_pod_waits_while_a_gate_is_on_it() -> None:
    item = pod("p", "team", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    assert is_gated(item)
    assert not kept(item).waits
    assert kept(pod("p", "team")).waits


def test_tolerations_are_read_with_their_defaults() -> None:
    written = [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoSchedule"}, {"key": "c"}]
    assert rules(tolerations=written).tolerations == (
        Toleration(),
        Toleration("a", "b", TaintEffect.NO_SCHEDULE),
        Toleration("c", ""),
    )


def test_a_node_must_meet_the_node_selector_and_one_of_the_terms() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]},
        {},
    ]
    found = rules(nodeSelector={"gpu": "h100"}, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    assert allows(found, (("gpu", "h100"), ("zone", "a")), "n1")
    assert allows(found, (("gpu", "h100"),), "n7")
    assert not allows(found, (("gpu", "h100"),), "n1")
    assert not allows(found, (("zone", "a"),), "n7")
    nothing = rules(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}})
    assert not allows(nothing, (("gpu", "h100"),), "n1")
    assert allows(rules(), (), "n1")


def test_the_rules_on_other_pods_hold_in_their_namespaces() -> None:
    term = {"topologyKey": HOSTNAME, "labelSelector": WEB}
    (near,) = rules(affinity={"podAffinity": {REQUIRED: [term]}}).near
    assert meets(near, labels_of((("app", "web"), (NAMESPACE_TAG, "team"))))
    assert not meets(near, labels_of((("app", "web"), (NAMESPACE_TAG, "other"))))
    assert not meets(near, labels_of((("app", "web"),)))
    (apart,) = rules(affinity={"podAntiAffinity": {REQUIRED: [{**term, "namespaceSelector": {}}]}}).apart
    assert meets(apart, labels_of((("app", "web"), (NAMESPACE_TAG, "other"))))
    (named,) = rules(affinity={"podAffinity": {REQUIRED: [{**term, "namespaces": ["x", "y"]}]}}).near
    assert meets(named, labels_of((("app", "web"), (NAMESPACE_TAG, "y"))))
    (none,) = rules(affinity={"podAffinity": {REQUIRED: [{"topologyKey": HOSTNAME}]}}).near
    assert not meets(none, labels_of(((NAMESPACE_TAG, "team"),)))


def test_wishes_have_their_weights_and_those_to_be_apart_count_against() -> None:
    wish = {"weight": 7, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": WEB}}
    found = rules(affinity={"podAffinity": {PREFERRED: [wish]}, "podAntiAffinity": {PREFERRED: [wish]}})
    assert [one.weight for one in found.preferred_neighbours] == [7, -7]
    node_wish = {"weight": 3, "preference": {"matchExpressions": [{"key": HOSTNAME, "operator": "Exists"}]}}
    preferring = rules(affinity={"nodeAffinity": {PREFERRED: [node_wish]}})
    assert [one.weight for one in preferring.preferred_nodes] == [3]
    assert preferring.by_name


def test_spreading_counts_pods_of_the_namespace_and_of_the_same_revision() -> None:
    written = {
        "maxSkew": 2,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        "matchLabelKeys": ["pod-template-hash", "missing"],
    }
    found = rules({"app": "web", "pod-template-hash": "abc"}, topologySpreadConstraints=[written])
    selector = (
        LabelExpression(NAMESPACE_TAG, Operator.IN, ("team",)),
        LabelExpression("app", Operator.IN, ("web",)),
        LabelExpression("pod-template-hash", Operator.IN, ("abc",)),
    )
    assert found.spread == (Spread(selector, 2),)
    assert not rules(topologySpreadConstraints=[{**written, "whenUnsatisfiable": "ScheduleAnyway"}]).spread[0].required


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"topologySpreadConstraints": [{"topologyKey": "zone"}]}, "topologySpreadConstraints.*'zone'"),
        ({"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}, "podAntiAffinity.*'zone'"),
        (
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": HOSTNAME, "namespaceSelector": WEB}]}}},
            "podAffinity.*namespaceSelector",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": HOSTNAME, "nodeTaintsPolicy": "Honor"}]},
            "nodeTaintsPolicy other than Ignore",
        ),
    ],
)
def test_places_other_than_nodes_are_refused(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        rules(**spec)


@pytest.mark.parametrize("junk", [None, 7, "x", [], [7], {"a": 7}, [[{}]], {"nodeAffinity": [1]}])
@pytest.mark.parametrize(
    "field", ["affinity", "tolerations", "topologySpreadConstraints", "volumes", "containers", "nodeSelector"]
)
def test_nonsense_is_read_without_harm(field: str, junk: Any) -> None:
    item = pod("p", "team", **{field: junk})
    item["metadata"]["labels"] = junk
    assert kept(item).ref.name == "p"


def test_a_gang_is_whole_when_all_its_pods_are_there_and_one_that_is_gone_does_not_count() -> None:
    gangs = Gangs()
    members = []
    for number in range(3):
        item = pod(f"p{number}", "team", gpus=1)
        item["metadata"] |= {
            "uid": f"u{number}",
            "annotations": {"corral.dev/gang": "g", "corral.dev/gang-size": "2"},
            "labels": {"batch.kubernetes.io/job-completion-index": str(number)},
        }
        members.append(read_ask(item))
    assert gangs.add(members[1], 2) is None
    assert gangs.add(members[1], 2) is None
    gangs.drop(members[1].pod)
    assert gangs.add(members[2], 2) is None
    whole = gangs.add(members[0], 2)
    assert whole == (members[0], members[2])
    refuse_different(whole, lambda one: one.account)
    different = ask({"corral.dev/gang": "g", "corral.dev/gang-size": "2"}, gpus=2)
    with pytest.raises(Refused, match="must ask for the same, and p0 and p differ in their resources or rules"):
        refuse_different((members[0], different), lambda one: one.account)


def test_the_pods_of_a_gang_are_one_users() -> None:
    gang = {"corral.dev/gang": "g", "corral.dev/gang-size": "2"}
    members = ask(gang), ask(gang, serviceAccountName="bob")
    with pytest.raises(Refused, match="belong to one user: p is of default and p of bob"):
        refuse_different(members, lambda one: one.account)
    refuse_different(members, lambda one: one.pod.namespace)


def test_a_pod_that_says_another_size_of_a_gang_is_refused_and_does_not_make_it_whole() -> None:
    gangs, asks = (
        Gangs(),
        [ask({"corral.dev/gang": "g", "corral.dev/gang-size": size}) for size in ("3", "3", "2", "3")],
    )
    first, second, other, third = (
        replace(one, pod=PodRef("team", f"p{number}", f"u{number}")) for number, one in enumerate(asks)
    )
    assert gangs.add(first, 3) is None
    assert gangs.add(second, 3) is None
    with pytest.raises(Refused, match="must give the same size, and p0 gives another"):
        gangs.add(other, 2)
    assert gangs.add(third, 3) == (first, second, third)


def test_a_pod_whose_gang_is_changed_counts_in_the_new_one_alone() -> None:
    gangs = Gangs()
    old, new = (ask({"corral.dev/gang": name, "corral.dev/gang-size": "2"}) for name in "ab")
    assert gangs.add(old, 2) is None
    assert gangs.add(new, 2) is None
    assert (gangs.lacking(gang_of(old)), list(gangs.lacking(gang_of(new)))) == ({}, [new.pod])
    gangs.drop(new.pod)
    assert gangs.lacking(gang_of(new)) == {}


def test_the_size_of_a_jobset_is_the_sum_of_what_its_jobs_run_at_a_time() -> None:
    jobs = [
        {"replicas": 2, "template": {"spec": {"parallelism": 3}}},
        {"template": {"spec": {}}},
    ]
    assert jobset_size({"spec": {"replicatedJobs": jobs}}) == 7
    assert jobset_size({"spec": {"replicatedJobs": [{"replicas": "x"}]}}) is None
    assert jobset_size({}) is None


def test_a_missing_selector_matches_nothing() -> None:
    assert not meets((LabelExpression(NAME_FIELD, Operator.IN, ()),), {NAME_FIELD: "n"})


def gang_of(ask: PodAsk) -> tuple[str, str]:
    assert ask.gang is not None
    return ask.gang.namespace, ask.gang.name
