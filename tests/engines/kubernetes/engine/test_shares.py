"""Parts of GPUs on a real API server: pods and jobs share a device, and who finds no room is told by how much."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.engine.binding_server import Server
from tests.engines.kubernetes.nodes import make_node

CORE, MEMORY, GPU = "tencent.com/vcuda-core", "tencent.com/vcuda-memory", "nvidia.com/gpu"
REGISTERED = '[{"id":"GPU-a","count":10,"devmem":40000,"devcore":100,"type":"NVIDIA-A100","health":true}]'
AMOUNTS = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}


def give(cluster: Cluster, name: str, amounts: dict[str, str], notes: dict[str, str] | None = None) -> None:
    make_node(cluster, name, gpus=0, status={key: {**AMOUNTS, **amounts} for key in ("capacity", "allocatable")})
    if notes:
        cluster.patch(NODES, name, {"metadata": {"annotations": notes}})


@pytest.fixture
def server(tmp_path: Path, control_plane: ControlPlane, cluster: Cluster, namespace: str) -> Iterator[Server]:
    name = f"s{uuid.uuid4().hex[:6]}"
    give(cluster, f"{name}-m", {CORE: "100", MEMORY: "320"})
    give(cluster, f"{name}-h", {GPU: "10"}, {"hami.io/node-nvidia-register": REGISTERED})
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    running = Server(tmp_path / "home", kubeconfig, cluster, namespace, f"{name}-m")
    try:
        assert "ready" in running.corral("up", "--detach") or running.log()
        yield running
    finally:
        running.corral("down")
        for node in (f"{name}-m", f"{name}-h"):
            cluster.delete(NODES, node)


def ask(server: Server, name: str, limits: dict[str, str], node: str | None = None, **more: Any) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    if node is not None:
        more["nodeSelector"] = {"kubernetes.io/hostname": node}
    server.make(name, containers=[container], **more)


def found(server: Server, name: str) -> dict[str, Any]:
    return server.cluster.get(PODS, name, server.namespace)


def bound(server: Server, name: str) -> dict[str, str]:
    server.eventually(lambda: "nodeName" in found(server, name)["spec"], f"{name} is bound")
    notes: dict[str, str] = found(server, name)["metadata"]["annotations"]
    return notes


def told(server: Server, name: str) -> str:
    conditions = found(server, name)["status"].get("conditions", [])
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


def test_two_halves_share_a_device_and_a_third_waits_and_is_told_by_how_much(server: Server) -> None:
    half = {CORE: "50", MEMORY: "160"}
    ask(server, "one", half)
    assert bound(server, "one")["tencent.com/predicate-gpu-idx-0"] == "0"
    ask(server, "two", half)
    notes = bound(server, "two")
    assert notes["tencent.com/predicate-node"] == server.node
    assert notes["tencent.com/gpu-assigned"] == "false"
    ask(server, "three", half)
    server.eventually(lambda: "it needs" in told(server, "three"), "the third is told why it waits")
    assert f"by {CORE}" in told(server, "three"), told(server, "three")
    assert "1 allocated to jobs" in told(server, "three")
    assert "nodeName" not in found(server, "three")["spec"]
    why = server.corral("why", f"{server.namespace}/three")
    assert "with 40G free" in why
    server.cluster.delete(PODS, "one", server.namespace, grace_s=0)
    bound(server, "three")


def test_a_pod_that_asks_for_what_cannot_be_is_refused_alone(server: Server) -> None:
    ask(server, "odd", {CORE: "150", MEMORY: "1"})
    ask(server, "halved", {CORE: "50"})
    ask(server, "fraction", {}, annotations={"gpu-fraction": "0.5"})
    ask(server, "fine", {CORE: "20", MEMORY: "10"})
    bound(server, "fine")
    server.eventually(
        lambda: "neither below 100 nor a multiple of it; ask for 100 or 200" in told(server, "odd"), "odd"
    )
    server.eventually(lambda: f"{CORE}: needs {MEMORY}, too; give both" in told(server, "halved"), "halved")
    server.eventually(lambda: "asks the kubelet for no GPU" in told(server, "fraction"), "fraction")


def test_a_job_of_corrals_own_gets_half_a_gpu_by_the_names_of_its_node(server: Server) -> None:
    said = server.corral("submit", "--gpus", "0.5", "--image", "busybox", "--node", server.node, "--", "true")
    assert "1" in said
    server.eventually(lambda: own_pods(server), "its pod is made")
    (pod,) = own_pods(server)
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert (limits[CORE], limits[MEMORY]) == ("50", "160")
    assert pod["metadata"]["annotations"]["tencent.com/predicate-gpu-idx-0"] == "0"


def own_pods(server: Server) -> list[dict[str, Any]]:
    pods = server.cluster.list(PODS)
    return [one for one in pods if one["metadata"]["namespace"] == server.namespace and one["spec"].get("nodeName")]


def test_the_plugin_of_registered_devices_serves_one_pod_after_the_other(server: Server) -> None:
    node = server.node.replace("-m", "-h")
    part = {GPU: "1", "nvidia.com/gpumem": "8000", "nvidia.com/gpucores": "20"}
    ask(server, "first", part, node)
    notes = bound(server, "first")
    assert notes["hami.io/vgpu-devices-to-allocate"] == "GPU-a,NVIDIA,8000,20:;"
    assert notes["corral.dev/devices"] == "GPU-a:200:8000:hook"
    ask(server, "second", part, node)
    second = f"{server.namespace}/second"
    server.eventually(lambda: "has given pod" in server.corral("why", second), "the second waits for the first")
    done = {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}
    server.cluster.patch(PODS, "first", done, server.namespace)
    bound(server, "second")
