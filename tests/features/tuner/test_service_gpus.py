"""What exporters and Prometheus say of the GPUs of a model service in a window, and nothing of other GPUs."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from corral.core.ports.monitoring import MonitoredDevice
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.pod_facts import PodFacts, read_pod
from corral.engines.kubernetes.inventory.readings.cluster_readings import EXPORTERS_ALONE, ReadingSources
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading
from corral.features.history.answers import GpuWindow
from corral.features.tuner.deployments import service_gpus
from corral.features.tuner.deployments.service_gpus import OwnGpus, ServiceGpus, gpu_info_of_service
from corral.features.tuner.measuring.gpu_records import windows_of
from tests.engines.kubernetes import manifests
from tests.engines.kubernetes.exporter import Exporter
from tests.engines.kubernetes.inventory.readings.test_cluster_readings import client_of, prometheus, serving
from tests.prometheus import needs_prometheus

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}


def node_of(name: str, labels: Mapping[str, str] = MappingProxyType({}), *, gpus: int = 8) -> dict[str, Any]:
    item: dict[str, Any] = manifests.node(name, gpus=gpus)
    item["metadata"]["labels"] = {"kubernetes.io/hostname": f"host-{name}", **H100, **labels}
    return item


@dataclass
class Cluster:
    """An API server, which is played, with nodes, their exporters, and the pods of one service.

    A real API server sends no request to loopback, where the exporter of a test is.
    """

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    exporters: dict[str, Exporter] = field(default_factory=dict)
    pods: list[PodFacts] = field(default_factory=list)

    def add(self, name: str) -> Exporter:
        self.nodes[name] = node_of(name)
        self.exporters[name] = Exporter(f"host-{name}")
        return self.exporters[name]

    def serve(self, pod: str, node: str, gpus: int) -> None:
        self.pods.append(read_pod(manifests.pod(pod, "ml", gpus=gpus, node=node)))

    def answer(self, path: str) -> tuple[int, str]:
        if path.startswith("/api/v1/nodes"):
            return 200, listed([item for name, item in self.nodes.items() if path.endswith(f"%3D{name}")])
        if path.startswith("/api/v1/pods"):
            pods = [pod_of_exporter(name) for name in self.exporters] if "nvidia-dcgm-exporter" in path else []
            return 200, listed(pods)
        name = path.partition("/pods/dcgm-")[2].partition("%3A")[0]
        return self.exporters[name].answer(path) if name in self.exporters else (404, "{}")


def listed(items: Sequence[Any]) -> str:
    return json.dumps({"items": items, "metadata": {}})


def pod_of_exporter(node: str) -> dict[str, Any]:
    owners = [{"kind": "DaemonSet", "name": "dcgm", "uid": "u", "controller": True}]
    metadata = {"name": f"dcgm-{node}", "namespace": "gpu-operator", "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}}


@contextmanager
def watched(
    cluster: Cluster, directory: Path, sources: ReadingSources = EXPORTERS_ALONE
) -> Iterator[Callable[[float], Sequence[GpuWindow]]]:
    """A function that returns the readings since a time, as soon as there are two of the GPU with fewest."""
    with (
        serving(cluster.answer) as url,
        closing(ServiceGpus(client_of(url, directory), sources, lambda: cluster.pods)) as gpus,
    ):

        def since(began_at: float) -> Sequence[GpuWindow]:
            until = time.monotonic() + 60
            while True:
                window = began_at, time.time()
                found = windows_of(gpus.readings(*window), window)
                if found and min(one.count for gpu in found for one in gpu.series.values()) >= 2:
                    return found
                assert time.monotonic() < until, found
                time.sleep(0.05)

        yield since


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_gpus, "EVERY_S", 0.05)


def used(windows: Sequence[GpuWindow]) -> dict[str, tuple[float, float]]:
    return {gpu.label: (gpu.series["utilization_pct"].min, gpu.series["power_w"].max) for gpu in windows}


def load(exporter: Exporter, *indices: int) -> None:
    for index in indices:
        exporter.gpus[index].used_pct, exporter.gpus[index].power_w = 90 + index, 300 + index


def test_an_exporter_tells_of_the_gpus_of_the_service_from_the_window_on(tmp_path: Path) -> None:
    cluster = Cluster()
    exporter = cluster.add("a")
    cluster.serve("llama", "a", gpus=2)
    exporter.give("ml", "llama", 3, 5)
    exporter.give("ml", "other", 0)
    with watched(cluster, tmp_path) as since:
        since(0.0)
        load(exporter, *range(8))
        found = since(time.time())
    assert used(found) == {"3": (93, 303), "5": (95, 305)}
    assert [(gpu.name, gpu.memory_mib) for gpu in found] == [("NVIDIA-H100-80GB-HBM3", 81559)] * 2


def test_gpus_of_several_nodes_are_named_with_their_node(tmp_path: Path) -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        exporter = cluster.add(name)
        cluster.serve(f"llama-{name}", name, gpus=1)
        exporter.give("ml", f"llama-{name}", 2)
        load(exporter, 2)
    with watched(cluster, tmp_path) as since:
        assert used(since(0.0)) == {"a:2": (92, 302), "b:2": (92, 302)}


@needs_prometheus
@pytest.mark.parametrize("scrape", [{}, {"namespace": "gpu-operator", "pod": "dcgm-x"}])
def test_a_prometheus_tells_of_each_scrape_in_the_window(tmp_path: Path, scrape: dict[str, str]) -> None:
    cluster = Cluster()
    exporter = cluster.add("a")
    cluster.serve("llama", "a", gpus=2)
    exporter.give("ml", "llama", 3, 5)
    load(exporter, *range(8))
    with (
        serving(exporter.answer) as url,
        prometheus(tmp_path, url.removeprefix("http://"), **scrape) as told,
        watched(cluster, tmp_path, ReadingSources(told)) as since,
    ):
        cluster.exporters.clear()
        began_at = time.time()
        found = since(began_at)
        lasted_s = time.time() - began_at
    assert used(found) == {"3": (93, 303), "5": (95, 305)}
    for gpu in found:
        one = gpu.series["utilization_pct"]
        # It scrapes each second.
        assert 2 <= one.count <= lasted_s + 1
        assert one.covered_s <= lasted_s


@needs_prometheus
def test_a_service_with_all_gpus_of_its_node_needs_no_names_of_pods(tmp_path: Path) -> None:
    cluster = Cluster()
    exporter = cluster.add("a")
    cluster.serve("llama", "a", gpus=8)
    load(exporter, *range(8))
    with (
        serving(exporter.answer) as url,
        prometheus(tmp_path, url.removeprefix("http://")) as told,
        watched(cluster, tmp_path, ReadingSources(told)) as since,
    ):
        assert len(since(time.time())) == 8


def test_a_prometheus_that_does_not_answer_gives_way_to_the_exporters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    cluster.add("a").give("ml", "llama", 0)
    cluster.serve("llama", "a", gpus=1)
    with watched(cluster, tmp_path, ReadingSources("http://127.0.0.1:9")) as since:
        assert list(used(since(time.time()))) == ["0"]
    assert caplog.text.count("Prometheus at http://127.0.0.1:9 does not tell of GPUs") == 1


def test_gpus_that_are_known_are_told_as_those_of_a_job() -> None:
    gpu = GpuReading(3, "GPU-c", 25.0, 20_000, 80_000)
    told = gpu_info_of_service("H100", 1, {MonitoredDevice("3", "H100", 80_000): gpu})
    assert (told["model"], told["count"], told["device_ids"]) == ("H100", 1, ["GPU-c"])
    (detail,) = told["gpu_info"]["details"]
    assert (told["gpu_info"]["indices"], detail["memory_free_mb"], detail["utilization_percent"]) == ([3], 60_000, 25)
    assert detail["availability_score"] == pytest.approx(0.6 * 0.75 + 0.4 * 0.75)
    unknown = gpu_info_of_service(None, 2, {})
    assert (unknown["count"], unknown["device_ids"], unknown["gpu_info"]["indices"]) == (2, [], [])


def readings(*pods: str | None) -> list[GpuReading]:
    return [GpuReading(index, pod=None if pod is None else ("ml", pod)) for index, pod in enumerate(pods)]


@pytest.mark.parametrize(
    ("gpus", "told", "own"),
    [
        (2, ["llama", "other", "llama", None], [0, 2]),
        (2, ["llama", "other", None, None], []),
        (2, [None, None, None, None], []),
        (4, [None, None, None, None], [0, 1, 2, 3]),
        (4, [None, None, None], []),
        (1, [], []),
    ],
)
def test_readings_that_may_be_of_other_gpus_count_for_nothing(
    gpus: int, told: list[str | None], own: list[int]
) -> None:
    place = OwnGpus(read_node(node_of("n", gpus=4)), {("ml", "llama"): gpus})
    assert [gpu.index for gpu in place.of(readings(*told))] == own


@pytest.mark.parametrize(
    "labels",
    [
        {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"},
        {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/mig.strategy": "single"},
    ],
)
def test_a_part_of_a_gpu_has_no_readings_of_its_own(labels: dict[str, str]) -> None:
    place = OwnGpus(read_node(node_of("n", labels, gpus=4)), {("ml", "llama"): 1})
    assert place.of(readings("llama")) == ()
