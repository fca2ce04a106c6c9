"""The engine takes readings of GPUs at a bounded rate, and a server tells them, job by job."""

import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from corral.clock import SystemClock
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.engine.gpu_readings import GpuReadings
from corral.engines.kubernetes.engine.node_book import NodeBook
from corral.engines.kubernetes.inventory.occupants import keep_occupant
from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources
from corral.engines.kubernetes.inventory.readings.dcgm_text import FIELDS
from tests.engines.kubernetes import manifests
from tests.engines.kubernetes.engine.site import Site
from tests.engines.kubernetes.inventory.readings.test_cluster_readings import NO_PODS, client_of, serving
from tests.engines.kubernetes.nodes import make_node


def exporter(node: str, **metadata: Any) -> Any:
    item = manifests.pod(f"dcgm-{node}", "gpu-operator", node=node)
    item["metadata"] |= {"uid": f"uid-{node}", "labels": {"app": "nvidia-dcgm-exporter"}, **metadata}
    return item


OF_A_DAEMON_SET = [{"kind": "DaemonSet", "name": "dcgm", "uid": "u", "controller": True}]


def book_of(clock: SystemClock, *pods: Any, nodes: int = 3) -> NodeBook:
    book = NodeBook(clock)
    book.nodes_changed([Change(None, read_node(manifests.node(f"n{number}", gpus=1))) for number in range(nodes)])
    book.occupants_changed([Change(None, keep_occupant(pod)) for pod in pods])
    return book


def use_of(book: NodeBook, node: str) -> int | None:
    seen = book.see(node)
    assert seen is not None
    return seen.samples[0].utilization_pct


@pytest.fixture
def clock(tmp_path: Path) -> SystemClock:
    return SystemClock(tmp_path / "clock")


def test_exporters_that_hang_or_fail_hold_up_nobody_and_are_asked_less_often(
    tmp_path: Path, clock: SystemClock, caplog: pytest.LogCaptureFixture
) -> None:
    pods = [exporter(f"n{number}", ownerReferences=OF_A_DAEMON_SET) for number in range(3)]
    asked, released = Counter[str](), threading.Event()

    def answer(path: str) -> tuple[int, str]:
        name = path.partition("/pods/")[2].partition("%3A")[0]
        asked[name] += 1
        if name == "dcgm-n0":
            released.wait(60)
        return (503, "") if name != "dcgm-n1" else (200, 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 37\n')

    book = book_of(clock, *pods)
    with serving(answer) as url:
        readings = GpuReadings(client_of(url, tmp_path), book, ReadingSources(), clock, 0.5)
        for _ in range(4):
            began_s = time.monotonic()
            readings.look()
            assert time.monotonic() - began_s < 30
        released.set()
    assert [use_of(book, f"n{number}") for number in range(3)] == [None, 37, None]
    assert asked["dcgm-n1"] == 4
    assert asked["dcgm-n0"] == 2  # in the first round and in the third
    assert caplog.text.count("dcgm-exporter does not answer on 2 nodes: n0, n2") == 1


def test_a_pod_that_only_has_the_label_of_an_exporter_is_not_believed(tmp_path: Path, clock: SystemClock) -> None:
    book = book_of(clock, exporter("n0"), nodes=1)
    with serving(lambda path: (200, 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 37\n')) as url:
        GpuReadings(client_of(url, tmp_path), book, ReadingSources(), clock, 0.5).look()
    assert use_of(book, "n0") is None


def test_prometheus_is_asked_once_a_field_for_all_nodes(tmp_path: Path, clock: SystemClock) -> None:
    rows = [series(f"n{number}", 0, number) for number in range(3)]
    asked: list[str] = []

    def answer(path: str) -> tuple[int, str]:
        asked.append(path)
        return 200, prometheus_answer(rows)

    book = book_of(clock)
    with serving(answer) as url, serving(lambda _: (200, NO_PODS)) as server:
        GpuReadings(client_of(server, tmp_path), book, ReadingSources(url), clock, 0.5).look()
    assert [use_of(book, f"n{number}") for number in range(3)] == [0, 1, 2]
    assert len(asked) == len(FIELDS)


def series(node: str, gpu: int, value: float, name: str = "GPU_UTIL", **labels: str) -> dict[str, Any]:
    metric = {"__name__": f"DCGM_FI_DEV_{name}", "gpu": str(gpu), "node": node, **labels}
    return {"metric": metric, "value": [time.time(), str(value)]}


def prometheus_answer(rows: list[dict[str, Any]]) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}})


def test_a_server_tells_the_use_of_each_job_and_of_free_gpus(site: Site) -> None:
    node = f"{site.prefix}-a"
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}
    make_node(site.cluster, node, gpus=4, labels=labels)
    theirs = manifests.pod("theirs", site.namespace, gpus=1, node=node)
    site.cluster.create(PODS, theirs, site.namespace)
    rows: list[dict[str, Any]] = []

    def row(gpu: int, use_pct: int, pod: str | None) -> None:
        whose = {} if pod is None else {"exported_namespace": site.namespace, "exported_pod": pod}
        for name, value in (("GPU_UTIL", use_pct), ("FB_USED", 1000 * gpu), ("FB_FREE", 81920 - 1000 * gpu)):
            rows.append(series(node, gpu, value, name, pod="dcgm-x", namespace="gpu-operator", **whose))

    with serving(lambda _: (200, prometheus_answer(rows))) as url:
        site.home.mkdir()
        (site.home / "config.yaml").write_text(f"kubernetes: {{prometheus_url: '{url}'}}\n")
        site.up()
        site.corral("submit", "--image", "train:1", "--node", node, "--gpus", "2", "--", "python", "train.py")
        site.until("status", says=f"{node}  1 of 4 GPUs free")
        (ours,) = (
            pod["metadata"]["name"]
            for pod in site.cluster.list(PODS)
            if pod["metadata"]["namespace"] == site.namespace and pod["metadata"]["name"] != "theirs"
        )
        row(0, 91, ours)
        row(1, 11, None)
        row(2, 93, ours)
        row(3, 55, "theirs")
        status = site.until("status", says="93 %")
        devices = json.loads(site.corral("devices", "--json"))
        shown = json.loads(site.until("show", "1", "--json", says='"gpu_stats"'))
    ours_and_theirs = [one for one in devices if one["node"] == node]  # other tests have nodes in the same cluster
    used = {one["index"]: one["utilization_pct"] for one in ours_and_theirs}
    assert used == {0: 91, 1: 93, 2: 11, 3: 55}, status
    assert {one["memory_used_mib"] for one in ours_and_theirs} == {0, 1000, 2000, 3000}
    assert all(one["metered"] for one in ours_and_theirs)
    measured = {index: one["utilization"]["max"] for index, one in shown["gpu_monitoring"]["gpu_stats"].items()}
    assert measured == {"0": 91, "1": 93}
