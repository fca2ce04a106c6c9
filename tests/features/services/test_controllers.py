"""Model services are deployed through a real API server that has OME's and KServe's definitions."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import corral.kubernetes
from corral.core.model.errors import Conflict, CorralError, NotFound, Refused
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import CONFIG_MAPS, NAMESPACES, NODES, OWN_NAMESPACE, PODS, ResourceType
from corral.engines.kubernetes.doctor import Examined
from corral.engines.kubernetes.inventory.cluster_gpus import list_gpus
from corral.features.services.controllers import (
    DeploymentFailed,
    DeploymentNotReady,
    KServeController,
    OMEController,
)
from corral.features.services.hold_store import HOLDS_NAME, HoldStore
from corral.features.services.holds import service_key
from corral.features.services.selection import Fallback, NodeAffinity, NodeSelection, selection_of
from corral.features.services.service_checks import check_services
from corral.features.services.service_kinds import KSERVE, OME
from corral.features.services.service_wanted import ServiceWanted
from tests.certificates import needs_openssl
from tests.engines.kubernetes.assets import find_program
from tests.engines.kubernetes.control_plane import ADMIN, CORRAL, DEPLOYER, ControlPlane, run_program
from tests.engines.kubernetes.definitions import needs_definitions
from tests.engines.kubernetes.fault_proxy import BAD_DAY, fault_proxy
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node
from tests.engines.kubernetes.refusing_webhook import WORDS, refusing_webhook
from tests.engines.kubernetes.rights import give_documented_rights
from tests.features.services.conftest import Site
from tests.features.services.operator import make_pod, say_failed, say_ready, set_status

pytestmark = needs_definitions

CLUSTER_ROLES = ResourceType("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = ResourceType(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
HOSTNAME = "kubernetes.io/hostname"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def ome(site: Site, cluster: Cluster | None = None) -> OMEController:
    return OMEController(cluster or site.cluster, say=site.said.append)


def kserve(site: Site) -> KServeController:
    return KServeController(site.cluster, say=site.said.append)


def wanted(site: Site, name: str = "chat", **parameters: Any) -> ServiceWanted:
    given = {key.replace("_", "-"): value for key, value in parameters.items()}
    return ServiceWanted(name, site.namespace, site.model, site.runtime, given)


EXAMPLE = """\
=== GPU Node Selection ===
Looking for node with 1 idle GPU(s)...
Selected node 'host-10-97-65-155' for deployment:
  - Allocatable GPUs: 8/8
  - Idle GPUs: 8
  - Avg Utilization: 0.0%
  - Avg Memory Usage: 0.0%
✓ Selected node: host-10-97-65-155
==========================

Created InferenceService 'my-task-exp1' in namespace 'autotuner' on node 'host-10-97-65-155'
"""


def test_the_known_example_prints_what_it_always_printed(
    site: Site,
    control_plane: ControlPlane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # The names of the example, which no other test uses, and the cluster as a user has it.
    prepare_example(site)
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig(tmp_path / "config")))
    for kind in (corral.kubernetes.OMEController, corral.kubernetes.KServeController):
        controller = kind()
        controller.deploy_inference_service(
            task_name="my-task",
            experiment_id="1",
            namespace="autotuner",
            model_name="llama-3-2-1b-instruct",
            runtime_name="sglang-llama-small",
            parameters={"tp-size": 1},
        )
        assert capsys.readouterr().out == EXAMPLE
        controller.delete_inference_service("my-task-exp1", "autotuner")
        controller.close()


def prepare_example(site: Site) -> None:
    """The node, model and runtimes of the example: those of the site under other names."""
    node = "host-10-97-65-155"
    make_node(site.cluster, node, labels={"example": "yes"})
    site.cluster.create(NAMESPACES, {"metadata": {"name": "autotuner"}})
    assert OME.models is not None
    for resource in (OME.models, OME.runtimes[0], KSERVE.runtimes[0]):
        spec = site.cluster.get(resource, site.model if resource is OME.models else site.runtime)["spec"]
        spec.pop("nodeSelector", None)
        if resource is KSERVE.runtimes[0]:
            spec["nodeSelector"] = {"example": "yes"}
        spec.get("engineConfig", {}).pop("nodeSelector", None)
        name = "llama-3-2-1b-instruct" if resource is OME.models else "sglang-llama-small"
        site.cluster.create(resource, {"metadata": {"name": name}, "spec": spec})
    status = {"nodesReady": [node], "state": "Ready"}
    site.cluster.patch(OME.models, "llama-3-2-1b-instruct", {"status": status}, subresource="status")


def test_the_api_server_keeps_all_that_ome_is_told(site: Site) -> None:
    node = site.node("a")
    site.ready_on(node)
    made = ome(site).deploy(wanted(site, tp_size=2))
    kept = site.cluster.get(OME.services, "chat", site.namespace)
    assert kept["spec"] == made["spec"]
    engine = kept["spec"]["engine"]
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [f"host-{node}"]}]}
    assert engine["affinity"]["nodeAffinity"] == {PREFERRED: [{"weight": 100, "preference": term}]}
    assert engine["runner"]["args"] == ["--port=8080", "--tp-size=2"]
    assert kept["spec"]["model"]["name"] == site.model


def test_the_api_server_keeps_all_that_kserve_is_told(site: Site) -> None:
    node = site.node("a")
    storage = replace(wanted(site, tp_size=2), model_name="hf://example/model")
    kserve(site).deploy(storage, NodeSelection(affinity=NodeAffinity.REQUIRED))
    predictor = site.cluster.get(KSERVE.services, "chat", site.namespace)["spec"]["predictor"]
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [f"host-{node}"]}]}
    assert predictor["affinity"]["nodeAffinity"] == {REQUIRED: {"nodeSelectorTerms": [term]}}
    assert predictor["model"]["storageUri"] == "hf://example/model"
    assert predictor["model"]["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_without_selection_kubernetes_decides(site: Site) -> None:
    site.ready_on(site.node("a"))
    ome(site).deploy_inference_service("t", 1, site.namespace, site.model, site.runtime, {}, False)
    assert site.text() == f"Created InferenceService 't-exp1' in namespace '{site.namespace}'"
    assert "affinity" not in site.cluster.get(OME.services, "t-exp1", site.namespace)["spec"]["engine"]


def test_the_node_with_most_idle_gpus_is_chosen_among_those_that_can_be_used(site: Site) -> None:
    small, busy, good = site.node("a", gpus=4), site.node("b"), site.node("c")
    cordoned, tainted, silent, elsewhere = site.node("d"), site.node("e"), site.node("f"), site.node("g")
    make_pod(site.cluster, OME, site.namespace, "other", gpus=6, node=busy)
    site.cluster.patch(NODES, cordoned, {"spec": {"unschedulable": True}})
    taint = {"key": "dedicated", "value": "infra", "effect": "NoSchedule"}
    site.cluster.patch(NODES, tainted, {"spec": {"taints": [taint]}})
    conditions = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    site.cluster.patch(NODES, silent, {"status": {"conditions": conditions}}, subresource="status")
    site.ready_on(small, busy, good, cordoned, tainted, silent)
    ome(site).deploy(wanted(site, tp_size=4))
    assert f"✓ Selected node: {good}" in site.text()
    assert elsewhere not in site.text()


def test_labels_with_nonsense_choose_no_wrong_node(site: Site) -> None:
    odd = site.node("a", labels={"nvidia.com/gpu.memory": "lots", "nvidia.com/gpu.count": "8.8"})
    nameless = site.node("b")
    site.cluster.patch(NODES, nameless, {"metadata": {"labels": {HOSTNAME: None}}})
    site.ready_on(odd, nameless)
    make_pod(site.cluster, OME, site.namespace, "other", gpus=7, node=odd)
    ome(site).deploy(wanted(site))
    assert f"✓ Selected node: {odd}" in site.text()


def test_where_no_node_has_enough_kubernetes_decides_or_the_calmest_is_pinned(site: Site) -> None:
    node = site.node("a", gpus=4)
    make_pod(site.cluster, OME, site.namespace, "other", gpus=3, node=node)
    site.ready_on(node)
    ome(site).deploy(wanted(site, "left", tp_size=2))
    assert f"it needs 2 idle GPU(s) on one node; the best of 1, {node}, has 1 idle of 4 allocatable" in site.text()
    assert "affinity" not in site.cluster.get(OME.services, "left", site.namespace)["spec"]["engine"]
    with pytest.raises(Conflict, match="no node can be required for right: it needs 2 idle"):
        ome(site).deploy(wanted(site, "right", tp_size=2), NodeSelection(affinity=NodeAffinity.REQUIRED))
    assert "Nothing is deployed: the choice of a node is required" in site.text()
    ome(site).deploy(wanted(site, "pinned", tp_size=2), NodeSelection(fallback=Fallback.PIN))
    assert f"✓ Selected node: {node}" in site.text()


def test_gpus_that_only_the_runtime_names_are_looked_for(site: Site) -> None:
    few, many = site.node("few", gpus=2), site.node("many", gpus=4)
    site.ready_on(few, many)
    limits = {"resources": {"limits": {"nvidia.com/gpu": 4}}}
    change = {"spec": {"engineConfig": {"runner": {"name": "ome-container", **limits}}}}
    site.cluster.patch(OME.runtimes[0], site.runtime, change)
    name = ome(site).deploy_inference_service("task", 1, site.namespace, site.model, site.runtime, {})
    made = site.cluster.get(OME.services, name, site.namespace)
    noted = made["metadata"]["annotations"]
    assert (noted["corral.dev/gpus"], noted["corral.dev/node"]) == ("4", many)
    assert "Looking for node with 4 idle GPU(s)" in site.text()
    assert "resources" not in made["spec"]["engine"].get("runner", {})


def test_a_model_that_is_nowhere_yet_is_deployed_without_a_node(site: Site) -> None:
    site.node("a")
    ome(site).deploy(wanted(site))
    assert f"Note: the model {site.model} is not ready on any node yet (state not told)" in site.text()
    assert "the model is not ready on it" in site.text()


def test_deployments_at_once_never_take_the_same_idle_gpus(
    site: Site, control_plane: ControlPlane, tmp_path: Path
) -> None:
    nodes = [site.node(letter) for letter in "ab"]
    site.ready_on(*nodes)
    clients = [control_plane.connect(tmp_path) for _ in range(5)]

    def deploy(number: int) -> str | None:
        made = ome(site, clients[number]).deploy(wanted(site, f"s{number}", tp_size=4))
        node = made["metadata"]["annotations"].get("corral.dev/node")
        return None if node is None else str(node)

    with ThreadPoolExecutor(5) as pool:
        chosen = Counter(pool.map(deploy, range(5)))
    for client in clients:
        client.close()
    assert chosen == {nodes[0]: 2, nodes[1]: 2, None: 1}


def test_a_hold_ends_when_the_pods_are_seen_or_the_service_is_removed(site: Site) -> None:
    node = site.node("a")
    site.ready_on(node)
    ome(site).deploy(wanted(site, "first", tp_size=6))
    ome(site).deploy(wanted(site, "held", tp_size=4))
    assert f"the best of 1, {node}, has 2 idle of 8 allocatable" in site.text()
    make_pod(site.cluster, OME, site.namespace, "first", gpus=6, node=node)
    ome(site).deploy(wanted(site, "seen", tp_size=2))
    assert "  - Idle GPUs: 2" in site.said[-2]
    ome(site).delete_inference_service("seen", site.namespace)
    ome(site).deploy(wanted(site, "again", tp_size=2))
    assert "  - Idle GPUs: 2" in site.said[-2]


@needs_openssl
def test_what_a_webhook_refuses_is_told_in_its_words_and_holds_nothing(site: Site, tmp_path: Path) -> None:
    site.ready_on(site.node("a"))
    refused = refusing_webhook(site.cluster, site.namespace, tmp_path, group="ome.io", resource="*")
    with refused, pytest.raises(Refused, match=WORDS):
        ome(site).deploy(wanted(site, "refused"))
    held = site.cluster.get(CONFIG_MAPS, HOLDS_NAME, OWN_NAMESPACE).get("data") or {}
    assert service_key("ome", site.namespace, "refused") not in held


def test_a_service_over_several_nodes_gets_idle_ones_for_all_its_pods_or_none(site: Site) -> None:
    nodes = [site.node(letter) for letter in "abc"]
    site.ready_on(*nodes)
    make_pod(site.cluster, OME, site.namespace, "other", gpus=1, node=nodes[0])
    runner = {"name": "ome-container", "image": "example.test/server:1"}
    part = {"nodeSelector": {"site": site.tag}, "runner": runner}
    spec = {"engineConfig": {"leader": part, "worker": {"size": 1, **part}}}
    site.cluster.create(OME.runtimes[0], {"metadata": {"name": f"over-{site.tag}"}, "spec": spec})
    over = replace(wanted(site, tp_size=16), runtime_name=f"over-{site.tag}")
    made = ome(site).deploy(over)["spec"]["engine"]
    assert f"  - Beside it: {nodes[2]}" in site.text()
    assert f"✓ Selected node: {nodes[1]}" in site.text()
    for one in ("leader", "worker"):
        (preferred,) = made[one]["affinity"]["nodeAffinity"][PREFERRED]
        values = preferred["preference"]["matchExpressions"][0]["values"]
        assert values == [f"host-{nodes[1]}", f"host-{nodes[2]}"]
    ome(site).deploy(replace(over, name="second"))
    assert "it needs 8 idle GPU(s) on one node for each of 2 pods" in site.text()
    assert "affinity" not in site.cluster.get(OME.services, "second", site.namespace)["spec"]["engine"]["leader"]


def test_a_dry_run_is_checked_by_the_api_server_and_makes_nothing(site: Site) -> None:
    node = site.node("a")
    site.ready_on(node)
    made = ome(site).deploy(wanted(site), dry_run=True)
    assert made["metadata"]["annotations"]["corral.dev/node"] == node
    assert ome(site).deployments(site.namespace) == []
    assert "Created" not in site.text()


def test_a_name_that_is_taken_a_model_and_a_runtime_that_are_not_there_are_refused_in_words(site: Site) -> None:
    site.ready_on(site.node("a"))
    with pytest.raises(NotFound, match=f"there is no model modell-{site.tag}.*did you mean '{site.model}'"):
        ome(site).deploy(replace(wanted(site), model_name=f"modell-{site.tag}"))
    for controller in (ome(site), kserve(site)):
        with pytest.raises(NotFound, match=f"there is no runtime runtim-{site.tag}.*did you mean '{site.runtime}'"):
            controller.deploy(replace(wanted(site), runtime_name=f"runtim-{site.tag}"))
    with pytest.raises(NotFound, match="there is no namespace nowhere"):
        ome(site).deploy(replace(wanted(site), namespace="nowhere"))
    ome(site).deploy(wanted(site))
    with pytest.raises(Conflict, match=r"already.*corral undeploy chat"):
        ome(site).deploy(wanted(site))


def test_an_operator_that_is_not_installed_is_named(site: Site) -> None:
    class Absent(OMEController):
        kind = replace(OME, services=replace(OME.services, group="absent.example.test"))

    with pytest.raises(NotFound, match=r"OME is not installed in this cluster: it knows no inferenceservices\.absent"):
        Absent(site.cluster, say=site.said.append).deploy(wanted(site))


def test_a_model_that_failed_and_a_runtime_that_is_disabled_are_refused(site: Site) -> None:
    assert OME.models is not None
    site.cluster.patch(OME.models, site.model, {"status": {"state": "Failed"}}, subresource="status")
    with pytest.raises(Refused, match="has failed to load"):
        ome(site).deploy(wanted(site))
    site.cluster.patch(OME.runtimes[0], site.runtime, {"spec": {"disabled": True}})
    with pytest.raises(Refused, match="is disabled"):
        ome(site).deploy(wanted(site))


def test_a_service_is_ready_when_its_operator_says_so(site: Site) -> None:
    for controller, kind in ((ome(site), OME), (kserve(site), KSERVE)):
        controller.deploy(wanted(site), NodeSelection(affinity=NodeAffinity.ANY))
        with pytest.raises(DeploymentNotReady, match=r"stays deployed.*kubectl -n"):
            controller.wait_for_ready("chat", site.namespace, 0.2, poll_s=0.05)
        answering = threading.Timer(0.3, say_ready, (site.cluster, kind, site.namespace, "chat"))
        answering.start()
        url = controller.wait_for_ready("chat", site.namespace, 30, poll_s=0.05)
        answering.join()
        assert url == f"http://chat.{site.namespace}.example.test"


def test_a_load_that_fails_ends_the_wait_at_once_with_the_reason(site: Site) -> None:
    for controller, kind in ((ome(site), OME), (kserve(site), KSERVE)):
        controller.deploy(wanted(site), NodeSelection(affinity=NodeAffinity.ANY))
        say_failed(site.cluster, kind, site.namespace, "chat", "CUDA out of memory")
        with pytest.raises(DeploymentFailed, match=r"BlockedByFailedLoad: ModelLoadFailed: CUDA out of memory"):
            controller.wait_for_ready("chat", site.namespace, 600)


def test_deployments_are_listed_with_their_node_and_state(site: Site) -> None:
    node = site.node("a")
    site.ready_on(node)
    ome(site).deploy(wanted(site, tp_size=2))
    set_status(site.cluster, OME, site.namespace, "chat", conditions=[{"type": "Ready", "status": "False"}])
    (row,) = ome(site).deployments(site.namespace)
    assert (row.via, row.name, row.model, row.runtime) == ("ome", "chat", site.model, site.runtime)
    assert (row.gpus, row.node, row.affinity, row.state.state) == (2, node, "preferred", "loading")
    kserve(site).deploy(replace(wanted(site), model_name="hf://a/b"), NodeSelection(affinity=NodeAffinity.ANY))
    (row,) = kserve(site).deployments(site.namespace)
    assert (row.model, row.runtime, row.gpus, row.node) == ("hf://a/b", site.runtime, 1, None)


def test_the_doctor_tells_which_service_runs_elsewhere_and_which_lost_its_affinity(site: Site) -> None:
    node, other = site.node("a"), site.node("b", gpus=4)
    site.ready_on(node)
    for name in ("strays", "edited", "fine"):
        ome(site).deploy(wanted(site, name))
        say_ready(site.cluster, OME, site.namespace, name)
    make_pod(site.cluster, OME, site.namespace, "strays", gpus=1, node=other)
    make_pod(site.cluster, OME, site.namespace, "fine", gpus=1, node=node)
    site.cluster.patch(OME.services, "edited", {"spec": {"engine": {"affinity": None}}}, site.namespace)
    site.cluster.namespace = site.namespace
    found = check_services(Examined(site.cluster, list_gpus(site.cluster)))
    assert f"edited: it was to run on {node}, and its affinity is gone" in found.found
    assert f"strays: it was to run on {node} and runs on {other}: the affinity is only preferred" in found.found
    assert "fine" not in found.found
    assert found.advice.startswith(f"kubectl -n {site.namespace} describe pods -l ome.io/inferenceservice=")


def test_only_what_corral_deployed_is_removed(site: Site) -> None:
    spec = {"model": {"name": "x"}, "engine": {"minReplicas": 1}}
    site.cluster.create(OME.services, {"metadata": {"name": "theirs"}, "spec": spec}, site.namespace)
    with pytest.raises(Refused, match=r"was not deployed by Corral.*kubectl"):
        ome(site).delete_inference_service("theirs", site.namespace)
    gone = f"there is no service nothing of OME in namespace {site.namespace}; `corral deployments -A` lists all"
    for ask in (ome(site).delete_inference_service, ome(site).state):
        with pytest.raises(NotFound, match=f"^{gone}$"):
            ask("nothing", site.namespace)


def test_missing_rights_are_named_and_limit_no_more_than_they_must(
    site: Site, control_plane: ControlPlane, tmp_path: Path
) -> None:
    site.ready_on(site.node("a"))
    limited = control_plane.connect(tmp_path, DEPLOYER)
    with pytest.raises(CorralError, match=r"may not get clusterservingruntimes\.ome\.io"):
        ome(site, limited).deploy(wanted(site, "none"))
    ome_rule = {"apiGroups": ["ome.io"], "resources": ["*"], "verbs": ["*"]}
    with rights(site, ome_rule):
        ome(site, limited).deploy(wanted(site, "blind"))
        assert "No node selected: the user deployer may not list nodes" in site.text()
        assert site.said[-1].startswith("\nCreated")
    with rights(site, ome_rule, {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}):
        ome(site, limited).deploy(wanted(site, "unheld"))
        assert "Note: the GPUs are not held, so another deployment at this moment may choose the same" in site.text()
        assert "✓ Selected node" in site.said[-3]
    limited.close()


def test_the_rights_of_the_documentation_are_enough(site: Site, control_plane: ControlPlane, tmp_path: Path) -> None:
    node = site.node("a")
    site.ready_on(node)
    HoldStore(site.cluster).read()  # the namespace of the holds is there, as the documentation says
    give_documented_rights(site.cluster, CORRAL)
    corral = control_plane.connect(tmp_path, CORRAL)
    for kind in (OMEController, KServeController):
        controller = kind(corral, say=site.said.append)
        controller.deploy(wanted(site))
        assert [row.node for row in controller.deployments(site.namespace)] == [node]
        controller.delete_inference_service("chat", site.namespace)
    corral.close()
    assert "Note" not in site.text()


def test_on_bad_days_no_gpus_are_promised_twice_and_no_service_is_made_twice(
    site: Site, control_plane: ControlPlane, tmp_path: Path
) -> None:
    nodes = [site.node(letter) for letter in "ab"]
    site.ready_on(*nodes)
    HoldStore(site.cluster).read()
    faults = replace(BAD_DAY, error_500=0.05, conflict_409=0.08, lost_answer=0.08, hang_s=0.3)
    with fault_proxy(control_plane, faults, seed=5) as proxy:
        client = control_plane.connect(tmp_path, url=proxy.url)
        for fault in ("conflict_409", "lost_answer", "error_500", "busy_429"):
            proxy.once(fault, lambda method, _: method == "PATCH")
            proxy.once(fault, lambda method, target: method == "POST" and "dryRun" not in target)

        def deploy(number: int) -> str | None:
            made = ome(site, client).deploy(wanted(site, f"s{number}", tp_size=2))
            node = made["metadata"]["annotations"].get("corral.dev/node")
            return None if node is None else str(node)

        with ThreadPoolExecutor(4) as pool:
            chosen = Counter(pool.map(deploy, range(10)))
        client.close()
        assert min(proxy.counts[fault] for fault in ("conflict_409", "lost_answer", "error_500", "busy_429")) >= 2
    assert chosen == {nodes[0]: 4, nodes[1]: 4, None: 2}
    assert len(ome(site).deployments(site.namespace)) == 10


def test_a_service_whose_answer_was_lost_is_known_as_our_own(
    site: Site, control_plane: ControlPlane, tmp_path: Path
) -> None:
    site.ready_on(site.node("a"))
    with fault_proxy(control_plane) as proxy:
        client = control_plane.connect(tmp_path, url=proxy.url)
        proxy.once("lost_answer", lambda method, target: method == "POST" and target.endswith("/inferenceservices"))
        made = ome(site, client).deploy(wanted(site))
        client.close()
        assert proxy.counts["lost_answer"] == 1
    assert made["metadata"]["uid"] == site.cluster.get(OME.services, "chat", site.namespace)["metadata"]["uid"]


@pytest.mark.skipif(find_program("kube-scheduler") is None, reason="needs kube-scheduler among KUBEBUILDER_ASSETS")
def test_the_scheduler_of_kubernetes_puts_the_pods_where_they_were_to_go(
    site: Site, control_plane: ControlPlane, tmp_path: Path
) -> None:
    nodes = [site.node(letter) for letter in "abc"]
    site.ready_on(nodes[1])
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(control_plane.kubeconfig(tmp_path / "scheduler", ADMIN))},
        "leaderElection": {"leaderElect": False},
        # Beside the hundreds of nodes of other tests it would look at some only.
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": f"of-{site.tag}"}],
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    words = [f"--config={tmp_path / 'settings.json'}", "--secure-port=0", "--port=0"]
    scheduler = run_program("kube-scheduler", words, tmp_path / "scheduler.log")
    try:
        # It begins before it has taken in all nodes: where "must" is bound, it knows the node that "likes" likes.
        for name, affinity in (("must", "required"), ("likes", "preferred")):
            ome(site).deploy(wanted(site, name, tp_size=2), selection_of({"affinity": affinity}))
            engine = site.cluster.get(OME.services, name, site.namespace)["spec"]["engine"]
            wanted_pod = pod(name, site.namespace, gpus=2, affinity=engine["affinity"], schedulerName=f"of-{site.tag}")
            site.cluster.create(PODS, wanted_pod)
            until = time.monotonic() + 60
            while (bound := bound_node(site, name)) is None:
                assert time.monotonic() < until, (tmp_path / "scheduler.log").read_text()[-2000:]
                time.sleep(0.1)
            assert bound == nodes[1], name
    finally:
        scheduler.terminate()
        scheduler.wait()


def bound_node(site: Site, name: str) -> str | None:
    node: str | None = site.cluster.get(PODS, name, site.namespace)["spec"].get("nodeName")
    return node


@contextmanager
def rights(site: Site, *rules: dict[str, Any]) -> Iterator[None]:
    """The user DEPLOYER has these for a while."""
    role = {"metadata": {"name": f"services-{site.tag}"}, "rules": list(rules)}
    subject = {"kind": "User", "name": DEPLOYER, "apiGroup": "rbac.authorization.k8s.io"}
    ref = {"kind": "ClusterRole", "name": f"services-{site.tag}", "apiGroup": "rbac.authorization.k8s.io"}
    site.cluster.create(CLUSTER_ROLES, role)
    binding = {"metadata": {"name": f"services-{site.tag}"}, "subjects": [subject], "roleRef": ref}
    site.cluster.create(BINDINGS, binding)
    try:
        yield
    finally:
        site.cluster.delete(BINDINGS, f"services-{site.tag}")
        site.cluster.delete(CLUSTER_ROLES, f"services-{site.tag}")
