"""The device plugin of a node: how long a kubelet waits for an allocation.

`python -m bench device_plugin`. A node with eight GPUs, whole and then in quarters, a real API server with its pods,
and a played kubelet that asks for the preferred devices and then allocates them, as a kubelet does for each pod. What
was given is written to the disk each time. It needs KUBEBUILDER_ASSETS.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from corral.core.model.devices.means import Means
from corral.engines.kubernetes.agent.agent_report import GivenDevices
from corral.engines.kubernetes.agent.plugin.device_plugins import DevicePlugins, KubeletPlaces
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NAMESPACES, PODS
from corral.engines.kubernetes.inventory.planned_devices import DEVICES, PlannedDevice, written
from tests.engines.kubernetes.agent.fake_kubelet import FakeKubelet, FakePodResources
from tests.engines.kubernetes.agent.plugin.hosts import SeenHost, drivers_of, gpu, uuid
from tests.engines.kubernetes.assets import find_program
from tests.engines.kubernetes.control_plane import Processes
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node

GPUS = 8
ROUNDS = 10
QUARTERS = 4
NAMESPACE = "bench"


def main(rounds: int = ROUNDS) -> None:
    if find_program("kube-apiserver") is None:
        print("KUBEBUILDER_ASSETS names no directory with kube-apiserver: not measured")
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        processes = Processes(Path(name) / "control-plane")
        try:
            plane = processes.start()
            cluster = plane.connect(Path(name))
            cluster.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            for title, means, parts in (("whole", Means.EXCLUSIVE, 1), ("quarters", Means.HOOK, QUARTERS)):
                took_s = list(_allocations(cluster, Path(name) / title, means, parts, rounds))
                asked, given = (sorted(one[at] * 1000 for one in took_s) for at in (0, 1))
                print(
                    f"{title}: {len(given)} allocations on {GPUS} GPUs; Allocate {_told(given)}; "
                    f"GetPreferredAllocation {_told(asked)}"
                )
            cluster.close()
        finally:
            processes.stop()


def _allocations(
    cluster: Cluster, directory: Path, means: Means, parts: int, rounds: int
) -> Iterator[tuple[float, float]]:
    """The seconds of each question and of each allocation."""
    (directory / "plugins").mkdir(parents=True)
    (directory / "lib.so").touch()
    node = f"node-{directory.name}"
    make_node(cluster, node, gpus=0)
    kubelet, pod_resources = FakeKubelet(directory / "plugins"), FakePodResources(directory / "pods.sock")
    places = KubeletPlaces(kubelet.directory, pod_resources.socket)
    seen = SeenHost(*(gpu(number, means=means) for number in range(GPUS)))
    drivers = drivers_of(directory / "home", hook=str(directory / "lib.so"))
    plugins = DevicePlugins(cluster, node, seen, drivers, home=directory / "home", places=places)
    resource = "nvidia.com/gpu" if parts == 1 else "tencent.com/vcuda-core"
    count = 1 if parts == 1 else 100 // parts
    kubelet.start()
    pod_resources.start()
    plugins.start()
    try:
        kubelet.until(lambda: resource in kubelet.devices)
        for _ in range(rounds):
            names = [f"pod-{number}" for number in range(GPUS * parts)]
            for number, name in enumerate(names):
                made = pod(name, NAMESPACE, node=node)
                made["spec"]["containers"][0]["resources"]["limits"] = {resource: str(count)}
                plan = PlannedDevice(uuid(number % GPUS), 1000 // parts, None if parts == 1 else 20480, means)
                made["metadata"]["annotations"] = {DEVICES: written([plan])}
                cluster.create(PODS, made)
                free = kubelet.devices[resource].keys() - {one for has in pod_resources.given for one in has.device_ids}
                began_s = time.perf_counter()
                ids = kubelet.preferred(resource, sorted(free), count)
                asked_s = time.perf_counter()
                kubelet.allocate(resource, ids)
                yield asked_s - began_s, time.perf_counter() - asked_s
                has = GivenDevices(NAMESPACE, name, "main", resource, tuple(ids))
                pod_resources.given = (*pod_resources.given, has)
            for name in names:
                cluster.delete(PODS, name, NAMESPACE, grace_s=0)
            pod_resources.given = ()
            while plugins.given():
                time.sleep(0.05)
    finally:
        plugins.stop()
        kubelet.close()
        pod_resources.close()


def _told(sorted_ms: list[float]) -> str:
    p99_ms = sorted_ms[min(len(sorted_ms) - 1, len(sorted_ms) * 99 // 100)]
    return f"median {statistics.median(sorted_ms):.1f} ms, p99 {p99_ms:.1f} ms"
