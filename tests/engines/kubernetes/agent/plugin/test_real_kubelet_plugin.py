"""The device plugins of a node at a real kubelet with Docker: pods print what they were given."""

import sys
import tempfile
import time
import uuid as uuids
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.devices.means import Means
from corral.core.model.errors import CorralError
from corral.engines.kubernetes.agent.agent_report import GivenShare
from corral.engines.kubernetes.agent.plugin.device_plugins import DevicePlugins, KubeletPlaces
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NAMESPACES, NODES, PODS
from corral.engines.kubernetes.inventory.planned_devices import DEVICES, PlannedDevice, written
from tests.engines.kubernetes.agent.plugin.hosts import SeenHost, drivers_of, gpu, mig, some_library, uuid
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.real_kubelet import IMAGE, RealKubelet, why_no_kubelet
from tests.vendors.nvidia.conftest import FAKE_MPS_CONTROL

LACKING = why_no_kubelet()
pytestmark = pytest.mark.skipif(LACKING is not None, reason=f"no real kubelet: {LACKING}")

PATIENCE_S = 60.0
WHOLE, CORES, MEMORY = "nvidia.com/gpu", "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
MPS = "nvidia.com/mps-core"


@dataclass
class Host:
    """A node with its kubelet and its device plugins."""

    cluster: Cluster
    kubelet: RealKubelet
    plugins: DevicePlugins
    seen: SeenHost
    namespace: str

    def run(
        self,
        name: str,
        resources: dict[str, int],
        plan: tuple[PlannedDevice, ...] | None = None,
        command: str = "echo $NVIDIA_VISIBLE_DEVICES",
    ) -> None:
        """Make a pod, and bind it with this plan."""
        limits = {resource: str(amount) for resource, amount in resources.items()}
        container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", command], "resources": {"limits": limits}}
        spec = {
            "containers": [container],
            "restartPolicy": "Never",
            "schedulerName": "corral",
            "terminationGracePeriodSeconds": 0,
        }
        made = self.cluster.create(PODS, {"metadata": {"name": name, "namespace": self.namespace}, "spec": spec})
        annotations = {} if plan is None else {DEVICES: written(plan)}
        self.cluster.bind(name, self.namespace, made["metadata"]["uid"], self.kubelet.name, annotations=annotations)

    def until(self, holds: Callable[[], object], why: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, why
            time.sleep(0.1)

    def status(self, name: str) -> dict[str, Any]:
        return dict(self.cluster.get(PODS, name, self.namespace)["status"])

    def phase(self, name: str, *phases: str) -> dict[str, Any]:
        """The status of a pod once it is in one of these phases."""
        self.until(lambda: self.status(name)["phase"] in phases, f"{name} does not become {phases}")
        return self.status(name)

    def says(self, name: str) -> list[str]:
        status = self.phase(name, "Succeeded", "Failed")
        assert status["phase"] == "Succeeded", status
        return self.read(name)

    def read(self, name: str) -> list[str]:
        return b"".join(self.cluster.read_log(name, self.namespace).blocks()).decode().splitlines()

    def shares_of(self, *pods: str) -> list[GivenShare]:
        return [share for share in self.plugins.given() if share.pod in pods]

    def delete(self, *names: str) -> None:
        for name in names:
            self.cluster.delete(PODS, name, self.namespace, grace_s=0)

    def amounts(self) -> dict[str, str]:
        return dict(self.cluster.get(NODES, self.kubelet.name)["status"]["allocatable"])


@pytest.fixture(scope="module")
def host(control_plane: ControlPlane) -> Iterator[Host]:
    # The paths of its sockets, 108 bytes at most, begin with this directory.
    with tempfile.TemporaryDirectory(prefix="kubelet-") as directory:
        cluster = control_plane.connect(Path(directory))
        namespace = f"test-{uuids.uuid4().hex[:12]}"
        cluster.create(NAMESPACES, {"metadata": {"name": namespace}})
        kubelet = RealKubelet(control_plane, cluster, Path(directory) / "host")
        control = Path(directory) / "mps-control"
        control.write_text(f"#!{sys.executable} -ISB\n{FAKE_MPS_CONTROL.read_text()}")
        control.chmod(0o755)
        home = Path(directory) / "home"
        home.mkdir()
        seen = SeenHost(
            gpu(0),
            gpu(1),
            gpu(2, means=Means.HOOK),
            gpu(3, means=Means.HOOK),
            gpu(4, means=Means.MPS),
            mig(5, "1g.10gb"),
        )
        try:
            kubelet.start()
            plugins = DevicePlugins(
                cluster,
                kubelet.name,
                seen,
                drivers_of(home, hook=some_library(), mps_control=str(control)),
                home=home,
                places=KubeletPlaces(kubelet.plugins, kubelet.pod_resources),
            )
            plugins.start()
            found = Host(cluster, kubelet, plugins, seen, namespace)
            try:
                found.until(lambda: found.amounts().get(WHOLE) == "2", "the GPUs do not come")
                yield found
            finally:
                plugins.stop()
        finally:
            with suppress(CorralError):
                for pod in cluster.list(PODS):
                    if pod["metadata"]["namespace"] == namespace:
                        cluster.delete(PODS, pod["metadata"]["name"], namespace, grace_s=0)
            kubelet.close()
            cluster.close()


def test_a_pod_gets_the_devices_that_were_planned_for_it(host: Host) -> None:
    host.run("second", {WHOLE: 1}, (PlannedDevice(uuid(1)),))
    host.run("first", {WHOLE: 1}, (PlannedDevice(uuid(0)),))
    assert host.says("second") == [uuid(1)]
    assert host.says("first") == [uuid(0)]


def test_two_halves_share_a_device_and_a_third_is_refused_in_words(host: Host) -> None:
    half = (PlannedDevice(uuid(3), 500, 40960, Means.HOOK),)
    show = "echo $NVIDIA_VISIBLE_DEVICES $CUDA_DEVICE_MEMORY_LIMIT $CUDA_DEVICE_SM_LIMIT"
    for name in ("one", "two"):
        host.run(name, {CORES: 50, MEMORY: 160}, half, f"{show}; sleep 1000")
        host.phase(name, "Running")
    host.run("three", {CORES: 50, MEMORY: 160}, half, show)
    refused = host.phase("three", "Failed")
    assert refused["reason"] == "UnexpectedAdmissionError"
    assert (
        f"is planned on {uuid(3)}, of which 0 of 100 are free, and the kubelet chose 50 of {uuid(2)}"
        in refused["message"]
    )
    for name in ("one", "two"):
        assert host.read(name) == [f"{uuid(3)} 40960m 50"]
    shares = {(share.pod, share.device_uuid, share.share_milli, share.memory_mib) for share in host.plugins.given()}
    assert {("one", uuid(3), 500, 40960), ("two", uuid(3), 500, 40960)} <= shares
    host.delete("one", "two", "three")
    host.until(lambda: not host.shares_of("one", "two"), "what deleted pods had is not free")


def test_memory_of_shared_devices_is_in_the_status_of_the_node(host: Host) -> None:
    host.until(lambda: MEMORY in host.amounts(), "no memory is offered")
    assert (host.amounts()[MEMORY], host.amounts()["nvidia.com/mps-memory"]) == ("640", "81920")
    assert (host.amounts()[CORES], host.amounts()[MPS]) == ("200", "100")


def test_a_part_under_mps_meets_the_daemon_of_its_device(host: Host) -> None:
    part = (PlannedDevice(uuid(4), 250, 20480, Means.MPS),)
    show = (
        "echo $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; cat $CUDA_MPS_PIPE_DIRECTORY/*.pid"
    )
    host.run("client", {MPS: 25}, part, show)
    limits, pid = host.says("client")
    assert limits == "0=20480M 25"
    assert (Path("/proc") / pid).exists() or pid.isdecimal()
    host.until(lambda: not host.shares_of("client"), "what an ended pod had is not free")


def test_a_pod_gets_a_slice_by_its_profile(host: Host) -> None:
    host.run("sliced", {"nvidia.com/mig-1g.10gb": 1})
    assert host.says("sliced") == [uuid(5).replace("GPU", "MIG")]


def test_a_restart_of_the_kubelet_takes_no_device_from_a_pod(host: Host) -> None:
    host.run("long", {WHOLE: 1}, (PlannedDevice(uuid(0)),), "echo $NVIDIA_VISIBLE_DEVICES; sleep 1000")
    host.phase("long", "Running")
    before = host.kubelet.registrations(WHOLE)
    host.kubelet.restart()
    host.until(lambda: host.kubelet.registrations(WHOLE) > before, "the plugin does not register again")
    host.run("next", {WHOLE: 1}, (PlannedDevice(uuid(1)),))
    assert host.says("next") == [uuid(1)]
    assert host.status("long")["phase"] == "Running"
    assert [share.device_uuid for share in host.shares_of("long")] == [uuid(0)]
    host.delete("long")


def test_a_device_that_falls_ill_is_offered_no_more(host: Host) -> None:
    before = host.seen.now
    host.seen.falls_ill(1, "it has fallen off the bus")
    host.until(lambda: host.amounts()[WHOLE] == "1", "the sick GPU is still offered")
    host.seen.now = before
    host.until(lambda: host.amounts()[WHOLE] == "2", "the healed GPU is not offered")
