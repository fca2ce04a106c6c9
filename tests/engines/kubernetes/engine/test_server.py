"""A server whose nodes are those of a real API server: what commands say of them, as they come, change and go."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corral.engines.kubernetes.cluster.resource import NODES, PODS
from tests.engines.kubernetes.control_plane import NOBODY, ControlPlane
from tests.engines.kubernetes.engine.site import Site
from tests.engines.kubernetes.inventory.readings.test_cluster_readings import serving
from tests.engines.kubernetes.manifests import node as node_object
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node


@contextmanager
def prometheus(node: str, pod_labels: dict[str, str]) -> Iterator[str]:
    """Answers with two GPUs of a node, the first of which the pod has."""
    fields = {"GPU_UTIL": (97, 0), "FB_USED": (70000, 1), "FB_FREE": (11920, 81919), "GPU_TEMP": (70, 30)}
    rows: list[dict[str, object]] = [
        {
            "metric": {"__name__": f"DCGM_FI_DEV_{field}", "node": node, "gpu": str(index)} | labels,
            "value": [0, str(values[index])],
        }
        for field, values in fields.items()
        for index, labels in enumerate([pod_labels, {"namespace": "monitoring", "pod": "dcgm-exporter-x"}])
    ]
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}})
    with serving(lambda _path: (200, body)) as url:
        yield url


def test_status_nodes_submit_and_why_answer(site: Site) -> None:
    node = f"{site.prefix}-a"
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}
    make_node(site.cluster, node, gpus=4, labels=labels)
    theirs = pod("theirs", site.namespace, gpus=2, node=node)
    site.cluster.create(PODS, theirs, site.namespace)
    site.up()
    status = site.corral("status")
    assert f"{node}  2 of 4 GPUs free" in status
    assert f"pod {site.namespace}/theirs" in status
    assert "these GPUs have no readings" in status
    assert node in site.corral("nodes")
    site.corral("submit", "--image", "train:1", "--node", node, "--gpus", "4", "--", "python", "train.py")
    why = site.until("why", "1", says="2 free")
    assert f"2 in use by pod {site.namespace}/theirs" in why


def test_nodes_are_followed_as_they_come_change_and_go(site: Site) -> None:
    site.up()
    first, second = f"{site.prefix}-a", f"{site.prefix}-b"
    make_node(site.cluster, first, gpus=4)
    make_node(site.cluster, second, gpus=1)
    site.until("status", says=f"{first}  4 of 4 GPUs free")
    site.until("status", says=f"{second}  1 of 1 GPUs free")

    site.cluster.patch(NODES, first, {"spec": {"unschedulable": True}})
    site.until("nodes", says=f"cordoned in Kubernetes; kubectl uncordon {first}")
    site.until("status", says=f"{first}  0 of 4 GPUs free")
    site.cluster.patch(NODES, first, {"spec": {"unschedulable": None}})
    site.until("status", says=f"{first}  4 of 4 GPUs free")

    shrunk = {**node_object(first, gpus=4)["status"]["allocatable"], "nvidia.com/gpu": "3"}
    site.cluster.patch(NODES, first, {"status": {"allocatable": shrunk}}, subresource="status")
    site.until("status", says=f"{first}  3 of 4 GPUs free")
    assert "only 3 of 4 GPUs of node" in site.corral("status")

    ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet is silent"}
    site.cluster.patch(NODES, first, {"status": {"conditions": [ready]}}, subresource="status")
    site.until("nodes", says=f"node {first} is not ready: NodeStatusUnknown: Kubelet is silent")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    site.cluster.patch(NODES, first, {"status": {"conditions": [ready]}}, subresource="status")
    site.until("status", says=f"{first}  3 of 4 GPUs free")

    site.cluster.delete(NODES, second)
    site.until_not("nodes", says=second)
    make_node(site.cluster, second, gpus=2)
    site.until("status", says=f"{second}  2 of 2 GPUs free")


def test_what_prometheus_measures_is_told_of_the_gpus_that_it_is_known_to_be_of(site: Site) -> None:
    node = f"{site.prefix}-a"
    make_node(site.cluster, node, gpus=2, labels={"nvidia.com/gpu.memory": "81920"})
    site.cluster.create(PODS, pod("theirs", site.namespace, gpus=1, node=node), site.namespace)
    with prometheus(node, {"exported_namespace": site.namespace, "exported_pod": "theirs"}) as url:
        site.home.mkdir(exist_ok=True)
        (site.home / "config.yaml").write_text(f"kubernetes:\n  prometheus_url: {url}\n")
        site.up()
        said = site.until("status", says="97 %")
    # Other tests have nodes in the same cluster, which nothing reads.
    free, used, whose = said[said.index(node) :].splitlines()[1:4]
    assert free.endswith("0 % |     1 / 81920 MB | free")
    assert used.endswith("97 % | 70000 / 81920 MB | in_use")
    assert f"pod {site.namespace}/theirs" in whose


def test_a_server_without_rights_says_which_are_missing(
    site: Site, control_plane: ControlPlane, tmp_path: Path
) -> None:
    site.kubeconfig = control_plane.kubeconfig(tmp_path / "powerless", NOBODY)
    said = " ".join(site.up(status=1).split())
    assert "does not let this server list nodes, watch nodes, list pods, watch pods in the whole cluster" in said
    assert "create pods, patch pods, delete pods, get pods/log, create services, delete services in namespace" in said
    assert "docs/kubernetes.md" in said


def test_a_namespace_that_is_not_there_keeps_a_server_from_starting(site: Site) -> None:
    site.namespace = f"no-{site.prefix}"
    said = site.up(status=1)
    assert f"has no namespace no-{site.prefix}, where jobs are to run" in said
    assert f"kubectl create namespace no-{site.prefix}" in said


def test_a_server_without_a_cluster_says_what_it_tried(site: Site, control_plane: ControlPlane, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        site.kubeconfig = control_plane.kubeconfig(tmp_path / "nowhere", url=url)
        said = site.up(status=1)
    assert "the server did not start" in said
    assert url in said


def test_a_kubeconfig_that_is_not_there_is_refused_with_its_name(site: Site, tmp_path: Path) -> None:
    site.kubeconfig = tmp_path / "missing"
    assert f"{tmp_path}/missing" in site.up(status=1)


def test_a_relative_kubeconfig_is_that_of_the_directory_where_the_server_is_started(site: Site) -> None:
    site.home.mkdir(exist_ok=True)
    directory = site.kubeconfig.parent
    named = f"missing.yaml:{site.kubeconfig.name}"
    words = ("up", "--detach", "--engine", "kubernetes", "--namespace", site.namespace)
    assert "is running in" in site.corral(*words, directory=directory, KUBECONFIG=named)


def test_a_job_without_gpus_is_listed_with_its_node(site: Site) -> None:
    node = f"{site.prefix}-a"
    make_node(site.cluster, node, gpus=1, labels={"of": site.prefix})
    make_node(site.cluster, f"{site.prefix}-b", gpus=1)
    site.up()
    site.corral("submit", "--gpus", "0", "--image", "busybox", "--label", f"of={site.prefix}", "--", "true")
    site.until("ps", says=f"CPU {node}")
