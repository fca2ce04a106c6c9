"""Parts of GPUs on a real API server: pods and jobs share a device, and who finds no room is told by how much."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.resource import NAMESPACES, NODES, PODS
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, control_plane: ControlPlane) -> Iterator[Server]:
    """A server for all tests of this file, each of which has nodes of its own."""
    tmp_path, name = tmp_path_factory.mktemp("shares"), f"s{uuid.uuid4().hex[:6]}"
    cluster = control_plane.connect(tmp_path)
    cluster.create(NAMESPACES, {"metadata": {"name": name}})
    of_manager = {CORE: "100", MEMORY: "320"}
    for end in ("halves", "odd", "own"):
        give(cluster, f"{name}-{end}", of_manager)
    give(cluster, f"{name}-registered", {GPU: "10"}, {"hami.io/node-nvidia-register": REGISTERED})
    give(cluster, f"{name}-both", {**of_manager, GPU: "1"})
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=name)
    running = Server(tmp_path / "home", kubeconfig, cluster, name, f"{name}-halves")
    try:
        said = " ".join(running.corral("up", "--detach").split())
        assert f"node {name}-both offers the same GPUs by {CORE} and {GPU}" in said
        yield running
    finally:
        running.corral("down")
        for node in cluster.list(NODES):
            if node["metadata"]["name"].startswith(name):
                cluster.delete(NODES, node["metadata"]["name"])
        cluster.close()


def node_of(server: Server, end: str) -> str:
    return f"{server.namespace}-{end}"


def ask(server: Server, name: str, limits: dict[str, str], node: str, **more: Any) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    where = {"kubernetes.io/hostname": node_of(server, node)}
    server.make(name, containers=[container], nodeSelector=where, **more)


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
    ask(server, "one", half, "halves")
    assert bound(server, "one")["tencent.com/predicate-gpu-idx-0"] == "0"
    ask(server, "two", half, "halves")
    notes = bound(server, "two")
    assert notes["tencent.com/predicate-node"] == server.node
    assert notes["tencent.com/gpu-assigned"] == "false"
    ask(server, "three", half, "halves")
    server.eventually(lambda: "it needs" in told(server, "three"), "the third is told why it waits")
    assert f"by {CORE}" in told(server, "three"), told(server, "three")
    assert "1 allocated to jobs" in told(server, "three")
    assert "nodeName" not in found(server, "three")["spec"]
    why = server.corral("why", f"{server.namespace}/three")
    assert "with 40G free" in why
    server.cluster.delete(PODS, "one", server.namespace, grace_s=0)
    bound(server, "three")


def test_a_pod_that_asks_for_what_cannot_be_is_refused_alone(server: Server) -> None:
    ask(server, "odd", {CORE: "150", MEMORY: "1"}, "odd")
    ask(server, "halved", {CORE: "50"}, "odd")
    ask(server, "fraction", {}, "odd", annotations={"gpu-fraction": "0.5"})
    ask(server, "fine", {CORE: "20", MEMORY: "10"}, "odd")
    bound(server, "fine")
    server.eventually(
        lambda: "neither below 100 nor a multiple of it; ask for 100 or 200" in told(server, "odd"), "odd"
    )
    server.eventually(lambda: f"{CORE}: needs {MEMORY}, too; give both" in told(server, "halved"), "halved")
    server.eventually(lambda: "asks the kubelet for no GPU" in told(server, "fraction"), "fraction")


def test_a_job_of_corrals_own_gets_half_a_gpu_by_the_names_of_its_node(server: Server) -> None:
    node = node_of(server, "own")
    server.corral("submit", "--gpus", "0.5", "--image", "busybox", "--node", node, "--", "true")
    server.eventually(lambda: pods_on(server, node), "its pod is made")
    (pod,) = pods_on(server, node)
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert (limits[CORE], limits[MEMORY]) == ("50", "160")
    assert pod["metadata"]["annotations"]["tencent.com/predicate-gpu-idx-0"] == "0"


def pods_on(server: Server, node: str) -> list[dict[str, Any]]:
    return list(server.cluster.list(PODS, Selection(fields=f"spec.nodeName={node}")))


def test_the_plugin_of_registered_devices_serves_one_pod_after_the_other(server: Server) -> None:
    part = {GPU: "1", "nvidia.com/gpumem": "8000", "nvidia.com/gpucores": "20"}
    ask(server, "first", part, "registered")
    notes = bound(server, "first")
    assert notes["hami.io/vgpu-devices-to-allocate"] == "GPU-a,NVIDIA,8000,20:;"
    assert notes["corral.dev/devices"] == "GPU-a:200:8000:hook"
    ask(server, "second", part, "registered")
    second = f"{server.namespace}/second"
    server.eventually(lambda: "starting" in server.corral("why", second).lower(), "the second has its place")
    assert "nodeName" not in found(server, "second")["spec"]
    done = {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}
    server.cluster.patch(PODS, "first", done, server.namespace)
    bound(server, "second")


def test_a_node_that_offers_its_gpus_in_two_ways_gives_no_parts(server: Server) -> None:
    ask(server, "beside", {CORE: "50", MEMORY: "160"}, "both")
    server.eventually(lambda: "it needs" in told(server, "beside"), "it is told why it waits")
    ask(server, "whole", {GPU: "1"}, "both")
    bound(server, "whole")
    assert "nodeName" not in found(server, "beside")["spec"]


def test_the_doctor_names_nodes_with_two_plugins_and_takes_no_parts_for_unknown_slices(server: Server) -> None:
    said = " ".join(
        server.corral(
            "doctor", "--engine", "kubernetes", "--kubeconfig", str(server.home.parent / "kubeconfig")
        ).split()
    )
    assert f"{node_of(server, 'both')} offers the same GPUs by {CORE} and {GPU}" in said
    assert f"gets {CORE}" not in said
