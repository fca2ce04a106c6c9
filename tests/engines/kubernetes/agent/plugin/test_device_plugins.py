"""The device plugins of a node through the faults of kubelets, API servers and others' plugins."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest

from corral.core.model.devices.means import Means
from corral.engines.kubernetes.agent.agent_report import GivenDevices, ServedResource
from corral.engines.kubernetes.agent.kubelet_api.allocations import ContainerAccess, KubeletChoice, ListedDevice
from corral.engines.kubernetes.agent.kubelet_api.device_plugin import PluginServer, register
from corral.engines.kubernetes.agent.plugin.device_plugins import DevicePlugins, KubeletPlaces
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.inventory.planned_devices import DEVICES, PlannedDevice, written
from tests.engines.kubernetes.agent.fake_kubelet import FakeKubelet, FakePodResources
from tests.engines.kubernetes.agent.plugin.hosts import SeenHost, drivers_of, gpu, uuid
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.fault_proxy import Faults, fault_proxy
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node

WHOLE = "nvidia.com/gpu"
MOCK = """
[[devices]]
mother_uuid = "GPU-one"
model_name = "Mock A100-SXM4-80GB"
memory_size = "80G"

[[devices]]
mother_uuid = "GPU-two"
model_name = "Mock A100-SXM4-80GB"
memory_size = "80G"
"""
OWN = "corral-nvidia.com-gpu.sock"
PATIENCE_S = 60.0


@dataclass
class Lab:
    """A node of a real API server, a played kubelet, and the plugins between them."""

    cluster: Cluster
    namespace: str
    directory: Path
    node: str = field(default_factory=lambda: f"plugin-{uuid4().hex[:8]}")
    seen: SeenHost = field(default_factory=lambda: SeenHost(*(gpu(number) for number in range(4))))

    def __post_init__(self) -> None:
        make_node(self.cluster, self.node, gpus=0)
        (self.directory / "plugins").mkdir()
        self.kubelet = FakeKubelet(self.directory / "plugins")
        self.pod_resources = FakePodResources(self.directory / "pods.sock")
        self.plugins = self.new_plugins(self.cluster)

    def new_plugins(self, cluster: Cluster) -> DevicePlugins:
        places = KubeletPlaces(self.kubelet.directory, self.pod_resources.socket)
        home = self.directory / "home"
        return DevicePlugins(cluster, self.node, self.seen, drivers_of(home), home=home, places=places)

    def start(self) -> None:
        self.kubelet.start()
        self.pod_resources.start()
        self.plugins.start()
        self.kubelet.until(lambda: WHOLE in self.kubelet.devices)

    def pod(self, name: str, *numbers: int) -> None:
        """A pod that is bound to the node, with a plan."""
        made = pod(name, self.namespace, gpus=max(1, len(numbers)), node=self.node)
        if numbers:
            plan = written([PlannedDevice(uuid(number)) for number in numbers])
            made["metadata"]["annotations"] = {DEVICES: plan}
        self.cluster.create(PODS, made)

    def admits(self, name: str, count: int = 1) -> str:
        """What a kubelet does for a pod: the value of the variable that its container gets."""
        taken = {one for given in self.pod_resources.given for one in given.device_ids}
        ids = self.kubelet.preferred(WHOLE, sorted(self.kubelet.devices[WHOLE].keys() - taken), count)
        answer = self.kubelet.allocate(WHOLE, ids)
        noted = GivenDevices(self.namespace, name, "main", WHOLE, tuple(ids))
        self.pod_resources.given = (*self.pod_resources.given, noted)
        return str(answer.envs["NVIDIA_VISIBLE_DEVICES"])

    def given(self) -> dict[str, str]:
        return {share.pod: share.device_uuid for share in self.plugins.given()}

    def until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, (self.given(), self.plugins.served(), self.kubelet.registered)
            time.sleep(0.05)

    def close(self) -> None:
        self.plugins.stop()
        self.kubelet.close()
        self.pod_resources.close()


@pytest.fixture
def lab(cluster: Cluster, namespace: str) -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="p-") as directory:
        made = Lab(cluster, namespace, Path(directory))
        yield made
        made.close()


class OtherPlugin:
    """A plugin that lists these devices."""

    sees_starts = False

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    def listed(self) -> tuple[ListedDevice, ...]:
        return tuple(ListedDevice(one, True) for one in self.ids)

    def preferred(self, choice: KubeletChoice) -> tuple[str, ...]:
        return choice.available[: choice.count]

    def allocate(self, device_ids: Any) -> ContainerAccess:
        return ContainerAccess()

    def starting(self, device_ids: Any) -> None:
        pass


def test_a_kubelet_that_restarts_is_told_again_and_pods_keep_what_they_have(lab: Lab) -> None:
    lab.start()
    lab.pod("first", 2)
    assert lab.admits("first") == uuid(2)
    lab.kubelet.close()
    lab.kubelet.start()
    lab.kubelet.until(lambda: len(lab.kubelet.devices.get(WHOLE, ())) == 4)
    lab.pod("second", 1)
    assert lab.admits("second") == uuid(1)
    assert lab.given() == {"first": uuid(2), "second": uuid(1)}


def test_a_socket_that_somebody_deletes_is_there_again(lab: Lab) -> None:
    lab.start()
    (lab.kubelet.directory / OWN).unlink()
    lab.kubelet.until(lambda: lab.kubelet.registered == [OWN, OWN] and WHOLE in lab.kubelet.devices)
    lab.pod("first", 2)
    assert lab.admits("first") == uuid(2)


def test_a_kubelet_that_lost_its_record_gives_a_pod_the_same_devices_again(lab: Lab) -> None:
    lab.start()
    lab.pod("first", 3)
    assert lab.admits("first") == uuid(3)
    lab.pod_resources.given = ()
    assert lab.admits("first") == uuid(3)
    assert lab.given() == {"first": uuid(3)}


def test_an_allocation_for_a_deleted_pod_is_refused_in_words(lab: Lab) -> None:
    lab.start()
    lab.pod("first", 3)
    lab.cluster.delete(PODS, "first", lab.namespace, grace_s=0)
    lab.until(lambda: lab.kubelet.preferred(WHOLE, sorted(lab.kubelet.devices[WHOLE]), 1) != [uuid(3)])
    with pytest.raises(grpc.RpcError) as refused:
        lab.kubelet.allocate(WHOLE, [uuid(3)])
    assert "no pod on this node asks for 1 nvidia.com/gpu and has none" in str(refused.value)


def test_plugins_that_start_again_know_what_was_given(lab: Lab) -> None:
    lab.start()
    lab.pod("first", 3)
    lab.admits("first")
    lab.plugins.stop()
    lab.pod_resources.close()
    lab.plugins = lab.new_plugins(lab.cluster)
    lab.plugins.start()
    lab.until(lambda: lab.kubelet.registered == [OWN, OWN])
    assert lab.given() == {"first": uuid(3)}


def test_pods_that_got_each_others_devices_are_told_as_the_kubelet_has_them(lab: Lab) -> None:
    lab.start()
    lab.pod("left", 0)
    lab.pod("right", 1)
    for number in (0, 1):
        lab.kubelet.allocate(WHOLE, [uuid(number)])
    lab.pod_resources.given = tuple(
        GivenDevices(lab.namespace, name, "main", WHOLE, (uuid(number),))
        for name, number in (("left", 1), ("right", 0))
    )
    lab.until(lambda: lab.given() == {"left": uuid(1), "right": uuid(0)})


def test_a_resource_that_another_plugin_serves_is_left_to_it_until_it_goes(lab: Lab) -> None:
    lab.kubelet.start()
    other = PluginServer(lab.kubelet.directory / "nvidia-gpu.sock", OtherPlugin(uuid(0), uuid(1)))
    other.start()
    register(lab.kubelet.directory, "nvidia-gpu.sock", WHOLE)
    lab.kubelet.until(lambda: WHOLE in lab.kubelet.devices)
    lab.plugins.start()
    lab.until(lambda: lab.plugins.served() == (ServedResource(WHOLE, "nvidia-gpu.sock"),))
    assert lab.kubelet.registered == ["nvidia-gpu.sock"]
    other.close()
    lab.until(lambda: lab.plugins.served() == (ServedResource(WHOLE, "corral"),))


def test_a_plugin_that_comes_later_is_not_fought(lab: Lab) -> None:
    lab.start()
    other = PluginServer(lab.kubelet.directory / "nvidia-gpu.sock", OtherPlugin("other-1"))
    other.start()
    try:
        register(lab.kubelet.directory, "nvidia-gpu.sock", WHOLE)
        lab.until(lambda: lab.plugins.served() == (ServedResource(WHOLE, "nvidia-gpu.sock"),))
        assert lab.kubelet.registered == [OWN, "nvidia-gpu.sock"]
    finally:
        other.close()


def test_an_api_server_that_fails_stops_nothing_that_is_bound(
    lab: Lab, control_plane: ControlPlane, tmp_path: Path
) -> None:
    with fault_proxy(control_plane) as proxy:
        through = control_plane.connect(tmp_path, url=proxy.url)
        lab.plugins = lab.new_plugins(through)
        lab.start()
        lab.pod("first", 3)
        assert lab.kubelet.preferred(WHOLE, sorted(lab.kubelet.devices[WHOLE]), 1) == [uuid(3)]
        proxy.faults = Faults(error_500=1.0)
        assert lab.admits("first") == uuid(3)
        with pytest.raises(grpc.RpcError) as refused:
            lab.kubelet.allocate(WHOLE, [uuid(2)])
        assert "the pods of this node cannot be listed now" in str(refused.value)
        lab.plugins.stop()
        through.close()


def test_the_agent_offers_the_devices_of_its_node(lab: Lab, control_plane: ControlPlane) -> None:
    """The program as a pod runs it, with its server away."""
    mock, config = lab.directory / "mock.toml", lab.directory / "config.yaml"
    mock.write_text(MOCK)
    config.write_text(f'sharing: {{"1": hook}}\nhook: {config}\n')
    (lab.directory / "device-plugins").symlink_to(lab.kubelet.directory)
    words = ["--server", "https://127.0.0.1:1", "--node", lab.node, "--mock", str(mock), "--config", str(config)]
    words += ["--kubelet-dir", str(lab.directory), "--home", str(lab.directory / "home"), "--device-plugin"]
    env = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig(lab.directory / "kubeconfig"))}
    lab.kubelet.start()
    command = [str(Path(sys.executable).parent / "corral"), "kubernetes", "agent", *words]
    with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL) as agent:
        try:
            lab.kubelet.until(lambda: {WHOLE, "tencent.com/vcuda-core"} <= lab.kubelet.devices.keys())
            assert lab.kubelet.devices[WHOLE] == {"GPU-one": True}
            assert len(lab.kubelet.devices["tencent.com/vcuda-core"]) == 100
        finally:
            agent.terminate()
    assert agent.returncode == 0


def test_a_container_that_got_the_memory_of_another_does_not_start(lab: Lab) -> None:
    library = lab.directory / "lib.so"
    library.touch()
    lab.seen = SeenHost(gpu(0, means=Means.HOOK))
    drivers = drivers_of(lab.directory, hook=str(library))
    places = KubeletPlaces(lab.kubelet.directory, lab.pod_resources.socket)
    lab.plugins = DevicePlugins(lab.cluster, lab.node, lab.seen, drivers, home=lab.directory, places=places)
    resource = "tencent.com/vcuda-core"
    lab.kubelet.start()
    lab.pod_resources.start()
    lab.plugins.start()
    lab.kubelet.until(lambda: resource in lab.kubelet.devices)
    for name, memory in (("small", "4"), ("large", "40")):
        made = pod(name, lab.namespace, node=lab.node)
        limits = {resource: "50", "tencent.com/vcuda-memory": memory}
        made["spec"]["containers"][0]["resources"]["limits"] = limits
        lab.cluster.create(PODS, made)
    halves = [[f"{uuid(0)}::{at + number}" for number in range(50)] for at in (0, 50)]
    limits_of = [lab.kubelet.allocate(resource, half).envs["CUDA_DEVICE_MEMORY_LIMIT"] for half in halves]
    assert limits_of == ["1024m", "10240m"]

    def noted(*owners: str) -> tuple[GivenDevices, ...]:
        held = zip(owners, halves, strict=True)
        return tuple(GivenDevices(lab.namespace, name, "main", resource, tuple(half)) for name, half in held)

    lab.pod_resources.given = noted("small", "large")
    lab.kubelet.begin(resource, halves[0])
    lab.pod_resources.given = noted("large", "small")
    with pytest.raises(grpc.RpcError) as refused:
        lab.kubelet.begin(resource, halves[0])
    assert f"is to get 10240 MiB of {uuid(0)}, and the kubelet gave it the limit of another pod, 1024 MiB" in str(
        refused.value
    )


def test_a_sick_device_is_listed_as_such(lab: Lab) -> None:
    lab.start()
    lab.seen.falls_ill(1, "it is lost")
    lab.kubelet.until(lambda: not lab.kubelet.devices[WHOLE][uuid(1)])
    assert lab.kubelet.devices[WHOLE][uuid(0)]


def test_a_device_that_mps_cannot_serve_fails_the_pod_with_the_reason(lab: Lab) -> None:
    lab.seen = SeenHost(gpu(0, means=Means.MPS))
    lab.plugins = lab.new_plugins(lab.cluster)
    lab.kubelet.start()
    lab.pod_resources.start()
    lab.plugins.start()
    resource = "nvidia.com/mps-core"
    lab.kubelet.until(lambda: resource in lab.kubelet.devices)
    made = pod("client", lab.namespace, node=lab.node)
    made["spec"]["containers"][0]["resources"]["limits"] = {resource: "50"}
    lab.cluster.create(PODS, made)
    with pytest.raises(grpc.RpcError) as refused:
        lab.kubelet.allocate(resource, [f"{uuid(0)}::{number}" for number in range(50)])
    assert "MPS" in str(refused.value)
    assert lab.given() == {}
