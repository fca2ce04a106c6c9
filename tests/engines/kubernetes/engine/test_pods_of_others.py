"""A server that binds pods which others make, used by the installed command, with a real API server."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from tests.engines.kubernetes.binding.site import pod_of_others
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.engine.binding_server import Server
from tests.engines.kubernetes.kubelet import Kubelet


@pytest.fixture
def server(tmp_path: Path, control_plane: ControlPlane, cluster: Cluster, namespace: str) -> Iterator[Server]:
    kubelet = Kubelet(cluster, f"k{uuid.uuid4().hex[:6]}", tmp_path / "kubelet", gpus=4)
    kubelet.start({"kubernetes.io/hostname": kubelet.name})
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    running = Server(tmp_path / "home", kubeconfig, cluster, namespace, kubelet.name)
    try:
        assert "ready" in running.corral("up", "--detach") or running.log()
        yield running
    finally:
        running.corral("down")
        kubelet.close()


def container(*command: str, gpus: int = 1) -> list[dict[str, Any]]:
    limits = {"nvidia.com/gpu": str(gpus)}
    return [{"name": "main", "image": "busybox", "command": list(command), "resources": {"limits": limits}}]


def test_what_a_pod_of_another_scheduler_keeps_off_its_node_stays_off(server: Server) -> None:
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "noisy"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    theirs = pod_of_others("quiet", server.namespace, containers=container("sleep", "600"), affinity=affinity)
    theirs["spec"] |= {"schedulerName": "someone-else", "nodeName": server.node}
    server.cluster.create(PODS, theirs, server.namespace)
    server.eventually(lambda: server.phase("quiet") == "Running", "the quiet one runs")
    server.make("noisy", labels={"app": "noisy"}, containers=container("true"))
    server.eventually(lambda: "must not share a node with it" in server.corral("why", "1"), "the noisy one is kept off")
    server.make("other", labels={"app": "other"}, containers=container("true"))
    server.eventually(lambda: server.phase("other") == "Succeeded", "another one is not")
    server.cluster.delete(PODS, "quiet", server.namespace, grace_s=0)
    server.eventually(lambda: server.phase("noisy") == "Succeeded", "the noisy one runs once the quiet one has gone")


def test_pods_of_others_run_wait_end_and_outlive_a_server(server: Server) -> None:
    server.make("short", containers=container("sh", "-c", "echo hello; exit 3"))
    server.make("long", containers=container("sleep", "600", gpus=4))
    server.eventually(lambda: "FAILED" in server.corral("ps", "--all"), "the short one has failed")
    server.eventually(lambda: server.phase("long") == "Running", "the long one runs")
    listed = server.corral("ps", "--all")
    assert "alice" in listed
    assert f"{server.namespace}/long" in listed
    of_namespace = server.corral("ps", "--namespace", f"{server.namespace},elsewhere")
    assert (of_namespace.count(f"{server.namespace}/long"), of_namespace.count(f"{server.namespace}/short")) == (1, 0)
    assert server.namespace not in server.corral("ps", "--all", "--namespace", "elsewhere")
    server.eventually(lambda: namespaces_of_costs(server) == [server.namespace], "its GPU-hours are counted")
    server.make("next", containers=container("true", gpus=2))
    server.eventually(lambda: "waits" in server.corral("why", "3"), "the next one waits")
    assert f"{server.node}" in server.corral("why", "3")
    server.corral("down")
    server.corral("up", "--detach")
    server.eventually(lambda: "RUNNING" in server.corral("ps"), "the long one is taken over")
    assert "hello" in server.corral("logs", "1")
    server.corral("cancel", "2")
    server.eventually(lambda: server.phase("long") is None, "the long one is deleted")
    server.eventually(lambda: server.phase("next") == "Succeeded", "the next one ran")
    server.eventually(lambda: server.corral("ps", "--all").count("SUCCEEDED") == 1, "it succeeded")
    assert len(server.corral("ps", "--all").strip().splitlines()) == 4


def namespaces_of_costs(server: Server) -> list[str]:
    rows = json.loads(server.corral("report", "--by", "namespace", "--json"))["rows"]
    return [row["names"]["namespace"] for row in rows]


def test_a_pod_that_wants_a_label_is_bound_once_its_node_has_that_label_itself(server: Server) -> None:
    found = {"nvidia.com/cuda.runtime-version.major": "12", "nvidia.com/cuda.runtime-version.minor": "4"}
    server.cluster.patch(NODES, server.node, {"metadata": {"labels": found}})
    newer = [
        {"key": "cuda-major-version", "operator": "In", "values": ["12"]},
        {"key": "cuda-minor-version", "operator": "Gt", "values": ["2"]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": newer}]}}
    server.make("cuda", affinity={"nodeAffinity": required}, containers=container("true"))
    server.eventually(lambda: "affinity" in server.corral("why", "1"), "it waits for such a node")
    labels = {"cuda-major-version": "12", "cuda-minor-version": "4"}
    server.cluster.patch(NODES, server.node, {"metadata": {"labels": labels}})
    server.eventually(lambda: server.phase("cuda") == "Succeeded", "it runs where the labels are")


def test_a_node_that_shares_its_gpus_by_time_enforces_nothing_and_gives_no_parts(server: Server) -> None:
    shared = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    server.cluster.patch(NODES, server.node, {"metadata": {"labels": shared}})
    server.make("one", containers=container("true"))
    server.eventually(lambda: server.phase("one") == "Succeeded", "a replica is given")
    shown = json.loads(server.corral("show", "1", "--json"))
    assert (shown["enforcement"]["memory"], shown["enforcement"]["compute"]) == ("advisory", "advisory")
    part = ("submit", "--gpus", "0.5", "--node", server.node, "--image", "busybox", "--", "true")
    refused = "every GPU here is allocated whole; ask for --gpus 1 or more"
    # By name: other tests have nodes in this cluster, which may give parts.
    server.eventually(lambda: refused in server.corral(*part), "a part is refused")


def test_no_ledger_begins_anew_while_a_pod_runs_that_the_one_before_has_bound(server: Server) -> None:
    server.make("done", containers=container("true"))
    server.make("long", containers=container("sleep", "600"))
    server.eventually(lambda: server.phase("done") == "Succeeded", "the short one has ended")
    server.eventually(lambda: server.phase("long") == "Running", "the long one runs")
    server.corral("down")
    said = server.corral("up", "--detach", "--anew")
    assert f"the pod {server.namespace}/long, which it has bound" in said
    assert f"{server.namespace}/done" not in said
    assert (server.home / "ledger.db").exists()
    server.cluster.delete(PODS, "long", server.namespace, grace_s=0)
    server.eventually(lambda: server.phase("long") is None, "the long one is gone")
    server.corral("up", "--detach", "--anew")
    assert list(server.home.glob("earlier-*/ledger.db"))
