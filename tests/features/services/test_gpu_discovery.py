"""The functions that scripts call follow a real cluster by watches."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import corral.kubernetes
from corral.core.model.errors import Refused
from corral.core.model.placing.placement_rules import IdleFirst
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import MissingRight
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources
from corral.features.services import gpu_discovery
from corral.features.services.gpu_discovery import (
    find_best_node_for_deployment,
    get_cluster_gpu_status,
    get_node_gpu_summaries,
)
from corral.features.services.idle_nodes import summaries
from corral.features.services.service_kinds import OME
from corral.features.services.watched_gpus import WatchedGpus, list_cluster
from tests.engines.kubernetes.control_plane import NOBODY, ControlPlane
from tests.engines.kubernetes.kubelet import Kubelet
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node
from tests.features.services.operator import make_pod


@pytest.fixture
def watched(cluster: Cluster) -> Iterator[WatchedGpus]:
    with WatchedGpus(cluster) as watched:
        yield watched


def eventually(read: Callable[[], Any], wanted: Any) -> None:
    until = time.monotonic() + 60
    while (found := read()) != wanted:
        assert time.monotonic() < until, f"{found} is not {wanted}"
        time.sleep(0.02)


def test_what_happens_in_the_cluster_is_seen(cluster: Cluster, namespace: str, watched: WatchedGpus) -> None:
    name = f"seen-{namespace}"
    make_node(cluster, name, gpus=3, labels={"nvidia.com/gpu.memory": "81559"})
    eventually(lambda: name in get_node_gpu_summaries(watched=watched), True)
    statuses = [one for one in get_cluster_gpu_status(watched=watched) if one.node_name == name]
    assert [(one.gpu_index, one.memory_total_mb, one.utilization_percent) for one in statuses] == [
        (number, 81559, None) for number in range(3)
    ]

    def idle() -> int:
        return get_node_gpu_summaries(watched=watched)[name].idle_gpu_count

    eventually(idle, 3)
    make_pod(cluster, OME, namespace, "chat", gpus=2, node=name)
    eventually(idle, 1)
    cluster.patch(NODES, name, {"status": {"allocatable": {"nvidia.com/gpu": "2"}}}, subresource="status")
    eventually(idle, 0)
    statuses = [one for one in get_cluster_gpu_status(watched=watched) if one.node_name == name]
    assert [one.allocatable for one in statuses] == [None] * 3
    cluster.delete(NODES, name)
    eventually(lambda: name in get_node_gpu_summaries(watched=watched), False)


def test_the_best_node_is_one_that_has_enough(cluster: Cluster, namespace: str, watched: WatchedGpus) -> None:
    name = f"large-{namespace}"
    make_node(cluster, name, gpus=64)
    eventually(lambda: find_best_node_for_deployment(33, watched=watched), name)
    assert find_best_node_for_deployment(required_gpus=65, watched=watched) is None
    assert find_best_node_for_deployment(33, watched=watched, prefer_nodes=["none"]) == name
    for option in ({"affinity": "required"}, {"count_hosts": True}, {"fallback": "guess"}, {"fallbak": "pin"}):
        with pytest.raises(Refused, match=next(iter(option))):
            find_best_node_for_deployment(33, watched=watched, **option)
    for ask in (get_cluster_gpu_status, get_node_gpu_summaries):
        for option in ({"fallback": "pin"}, {"prometheus_url": "http://p:9090"}, {"exec_nvidia_sm": True}):
            with pytest.raises(Refused, match=next(iter(option))):
                ask(watched=watched, **option)
    with pytest.raises(Refused, match="0 GPUs cannot be looked for"):
        find_best_node_for_deployment(0, watched=watched)
    cluster.delete(NODES, name)


def test_where_a_site_allows_it_nvidia_smi_is_run_in_pods(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU-a, 61, 100, 1000, 50, 250, 1410'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    kubelet = Kubelet(cluster, f"smi-{namespace}", tmp_path / "kubelet", gpus=4)
    kubelet.start()
    wanted = pod("busy", namespace, gpus=1, node=kubelet.name)
    wanted["spec"]["containers"][0]["command"] = ["sleep", "600"]
    cluster.create(PODS, wanted)
    eventually(lambda: cluster.get(PODS, "busy", namespace)["status"]["phase"], "Running")
    summary = {}
    for allowed in (False, True):
        seen = list_cluster(cluster, ReadingSources(exec_nvidia_smi=allowed))
        found = summaries(seen.view, seen.view.draft(), IdleFirst())
        summary[allowed] = next(one for one in found if one.node_name == kubelet.name)
    kubelet.close()
    cluster.delete(NODES, kubelet.name)
    assert (summary[False].metered, summary[False].idle_gpu_count) == (False, 3)
    assert (summary[True].metered, summary[True].idle_gpu_count) == (True, 3)
    assert (summary[True].avg_utilization, summary[True].avg_memory_usage) == (61.0, 10.0)


def test_who_may_not_list_nodes_is_told_so(control_plane: ControlPlane, tmp_path: Path) -> None:
    nobody = control_plane.connect(tmp_path, NOBODY)
    with WatchedGpus(nobody) as watched, pytest.raises(MissingRight, match="may not list"):
        get_node_gpu_summaries(watched=watched)
    nobody.close()


def test_the_source_of_readings_may_be_named_by_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ReadingSources] = []

    class Watching:
        def __init__(self, cluster: Cluster, sources: ReadingSources, *, hosts: bool) -> None:
            asked.append(sources)

        def ask(self, question: object) -> list[Any]:
            return []

    monkeypatch.setattr(gpu_discovery, "WatchedGpus", Watching)
    monkeypatch.setattr(gpu_discovery, "_usual", {})
    monkeypatch.setattr(Cluster, "connect", lambda: None)
    for ask in (get_cluster_gpu_status, get_node_gpu_summaries):
        ask(prometheus_url="http://p:9090", exec_nvidia_smi=True)
        ask(window_s=60)
    assert asked == [ReadingSources("http://p:9090", exec_nvidia_smi=True), ReadingSources(window_s=60)]


def test_the_public_names_are_loaded_on_first_use() -> None:
    assert all(hasattr(corral.kubernetes, name) for name in corral.kubernetes.__all__)
    assert corral.kubernetes.select_best_node is find_best_node_for_deployment
    with pytest.raises(AttributeError, match="OMEController"):
        corral.kubernetes.nothing_of_the_kind  # noqa: B018
