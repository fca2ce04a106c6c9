"""What the model knows of a node, from what its cluster tells."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.devices.device import DeviceCondition, HostUse, Node
from corral.core.model.devices.means import Enforcement, Level, Means
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.placing.fit import Misfit, fit
from corral.core.model.placing.placement_rules import Taint, TaintEffect
from corral.core.model.placing.state import NodeState, node_state
from corral.core.model.view import View
from corral.core.scheduling.explaining.impossible import sharing_lack
from corral.core.sharing.enforcement import enforcement
from corral.engines.kubernetes.cluster.node_facts import NodeFacts, read_node
from corral.engines.kubernetes.inventory.occupants import Occupant, keep_occupant
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading, NodeReadings
from corral.engines.kubernetes.inventory.seen_node import SeenNode, see_node, silence_of, with_readings
from tests.engines.kubernetes import manifests

LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.memory": "81920",
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "0",
    "nvidia.com/cuda.driver-version.full": "550.54.15",
    "nvidia.com/cuda.driver.major": "470",
    "nvidia.com/cuda.runtime-version.major": "12",
    "nvidia.com/cuda.runtime-version.minor": "4",
}


def facts(
    gpus: int = 8, allocatable: int | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> NodeFacts:
    item = manifests.node("gpu-07", gpus=gpus, labels=LABELS if labels is None else labels)
    if allocatable is not None:
        item["status"]["allocatable"] = {**item["status"]["allocatable"], "nvidia.com/gpu": str(allocatable)}
    return read_node({**item, "spec": spec})


def occupant(name: str, gpus: int = 1, **spec: Any) -> Occupant:
    item = manifests.pod(name, "ml", gpus=gpus, node="gpu-07", **spec)
    owner = {"kind": "Job", "name": "train", "uid": "u", "controller": True}
    item["metadata"] |= {"uid": f"uid-{name}", "ownerReferences": [owner], "labels": {"app": name}}
    found = keep_occupant({**item, "status": {"phase": "Running"}})
    assert found is not None
    return found


def seen(of: NodeFacts, *others: Occupant, held: tuple[int, ...] = (), before: SeenNode | None = None) -> SeenNode:
    return see_node(of, others, held, before, 100.0)


def test_devices_are_known_by_count_and_model_and_by_node_and_slot() -> None:
    node = seen(facts(2)).node
    assert [device.uuid for device in node.devices] == ["gpu-07.gpu-0", "gpu-07.gpu-1"]
    assert {device.model for device in node.devices} == {"NVIDIA A100-SXM4-80GB"}
    assert {device.memory_mib for device in node.devices} == {81920}
    assert {device.compute_capability for device in node.devices} == {(8, 0)}
    assert {device.means for device in node.devices} == {Means.EXCLUSIVE}
    assert (node.driver_version, node.cuda_version) == ("550.54.15", (12, 4))
    assert (node.cpu_milli, node.memory_mib, node.disk_mib) == (64_000, 512 * 1024, 1024 * 1024)


def test_what_labels_do_not_tell_is_not_known() -> None:
    (device,) = seen(
        facts(1, labels={"nvidia.com/gpu.memory": "lots", "nvidia.com/gpu.compute.major": "8"})
    ).node.devices
    assert (device.model, device.memory_mib, device.compute_capability) == ("unknown GPU", None, None)


REPLICAS = {**LABELS, "nvidia.com/gpu.replicas": "4"}
NAMED_SHARED = {**LABELS, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED"}


@pytest.mark.parametrize(
    "labels",
    [
        {**REPLICAS, "nvidia.com/gpu.sharing-strategy": "time-slicing"},
        {**REPLICAS, **NAMED_SHARED},
        {**REPLICAS, "nvidia.com/gpu.sharing-strategy": "none"},
        {**REPLICAS, "nvidia.com/gpu.sharing-strategy": "someday"},
        {**NAMED_SHARED, "nvidia.com/gpu.replicas": "a few"},
    ],
)
def test_of_a_gpu_shared_by_time_each_replica_is_a_slot_for_which_nothing_is_enforced(labels: dict[str, str]) -> None:
    node = seen(facts(8, labels=labels)).node
    assert len(node.devices) == 8
    device = node.devices[0]
    assert (device.model, device.memory_mib, device.means) == ("NVIDIA A100-SXM4-80GB", None, Means.TIMESLICE)
    found = enforced(node)
    assert found is not None
    assert (found.memory, found.compute) == (Level.ADVISORY, Level.ADVISORY)


def test_of_a_gpu_shared_by_mps_each_replica_has_its_part_of_the_memory_enforced() -> None:
    node = seen(facts(8, labels={**REPLICAS, "nvidia.com/gpu.sharing-strategy": "mps"})).node
    assert (node.devices[0].means, node.devices[0].memory_mib) == (Means.MPS, 20480)
    found = enforced(node)
    assert found is not None
    assert (found.memory, found.compute) == (Level.ENFORCED, Level.ENFORCED)


def test_who_asks_for_a_gpu_alone_gets_no_replica_and_no_part_of_one_is_given() -> None:
    node = seen(facts(8, labels={**REPLICAS, "nvidia.com/gpu.sharing-strategy": "time-slicing"})).node
    assert not isinstance(fit(Request(devices=1), state_of(node)), Misfit)
    alone = Request(devices=1, means=Means.EXCLUSIVE)
    assert isinstance(fit(alone, state_of(node)), Misfit)
    assert "the cluster shares every GPU here" in str(sharing_lack([node.devices], alone))
    whole = seen(facts(8)).node
    assert not isinstance(fit(alone, state_of(whole)), Misfit)
    assert sharing_lack([whole.devices], alone) is None


def enforced(node: Node) -> Enforcement | None:
    """How one whole slot is held to what it was granted."""
    job = Job("1", 1, JobSpec(user="alice", command=("true",)), submitted_at=0.0)
    member = Member(node.name, (Grant(node.devices[0].uuid, 1000),))
    return enforcement(job, Placement((member,)), view_of(node))


def view_of(node: Node) -> View:
    conditions = {device.uuid: DeviceCondition(device.uuid) for device in node.devices}
    return replace(View(), nodes={node.name: node}, conditions=conditions)


def state_of(node: Node) -> NodeState:
    return node_state(view_of(node), node.name)


def test_labels_are_the_nodes_own_whatever_its_driver_is() -> None:
    assert dict(seen(facts()).node.labels) == LABELS
    own = {**LABELS, "cuda-major-version": "11"}
    assert ("cuda-major-version", "11") in seen(facts(labels=own)).node.labels


def test_slices_of_one_kind_are_slices() -> None:
    sliced = {**LABELS, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "nvidia.com/gpu.memory": "9728"}
    (device, *_) = seen(facts(7, labels=sliced)).node.devices
    assert (device.model, device.mig_profile, device.memory_mib) == ("NVIDIA A100-SXM4-80GB", "1g.10gb", 9728)


def test_nodes_that_differ_by_their_own_name_alone_are_alike() -> None:
    assert not any(key == "kubernetes.io/hostname" for key, _ in seen(facts()).node.labels)
    renamed = {**LABELS, "kubernetes.io/hostname": "another"}
    assert ("kubernetes.io/hostname", "another") in seen(facts(labels=renamed)).node.labels


def test_a_pod_of_somebody_else_has_its_devices_and_its_part_of_the_host() -> None:
    resources = {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "3"}}
    pod = occupant("a", containers=[{"name": "main", "resources": resources}])
    found = seen(facts(4), pod)
    holders = [sample.pod for sample in found.samples]
    assert holders == [None, pod.pod, pod.pod, pod.pod]
    assert str(pod.pod) == "pod ml/a (Job/train)"
    assert (found.node.taken, found.node.most_members) == (HostUse(1500, 1024, 0), 109)
    assert dict(found.node.others[0].tags)["app"] == "a"
    assert not any(sample.metered for sample in found.samples)


def test_a_pod_whose_requests_cannot_be_read_has_the_whole_node() -> None:
    pod = occupant("a", containers=[{"name": "main", "resources": {"requests": {"cpu": "a lot"}}}])
    found = seen(facts(2), pod)
    assert [sample.pod for sample in found.samples] == [pod.pod, pod.pod]
    assert found.node.taken == HostUse(64_000, 512 * 1024, 1024 * 1024)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_has_nothing(phase: str) -> None:
    assert keep_occupant({**manifests.pod("a", "ml", gpus=1, node="gpu-07"), "status": {"phase": phase}}) is None
    assert keep_occupant(manifests.pod("a", "ml", gpus=1)) is None


def test_a_resource_whose_name_only_begins_alike_is_another() -> None:
    limits = {"nvidia.com/gpu.shared": "2", "nvidia.com/gpumem": "4000"}
    pod = occupant("a", containers=[{"name": "main", "resources": {"limits": limits}}])
    assert [sample.pod for sample in seen(facts(2), pod).samples] == [None, None]


def test_devices_that_are_not_healthy_are_sick_where_nobody_has_them() -> None:
    found = seen(facts(8, allocatable=7), held=(7,))
    assert [sample.illness is not None for sample in found.samples] == [False] * 6 + [True, False]
    assert "only 7 of 8 GPUs of node gpu-07 are healthy" in str(found.samples[6].illness)


def test_a_device_that_a_job_has_stays_known_when_the_node_shrinks() -> None:
    before = seen(facts(8), held=(7,))
    after = seen(facts(4), held=(7,), before=before)
    assert len(after.node.devices) == 8
    assert sum(sample.illness is not None for sample in after.samples) == 4
    assert after.samples[7].illness is None
    assert len(seen(facts(4), before=after).node.devices) == 4


def test_a_count_that_makes_no_sense_is_bounded() -> None:
    assert len(seen(facts(2_000_000_000)).node.devices) == 1024


def test_taints_and_a_cordon_are_the_nodes() -> None:
    taints = [{"key": "dedicated", "value": "infra", "effect": "NoSchedule"}]
    node = seen(facts(unschedulable=True, taints=taints)).node
    assert node.taints == (Taint("dedicated", "infra", TaintEffect.NO_SCHEDULE),)
    assert node.cordoned == "cordoned in Kubernetes; kubectl uncordon gpu-07 lets jobs start there again"


def test_a_node_that_is_not_ready_says_why() -> None:
    item = manifests.node("gpu-07")
    item["status"]["conditions"] = [
        {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting"}
    ]
    assert silence_of(read_node(item)) == "node gpu-07 is not ready: NodeStatusUnknown: Kubelet stopped posting"
    assert silence_of(facts()) is None
    item["status"]["allocatable"]["cpu"] = "many"
    assert str(silence_of(read_node(item))).startswith("node gpu-07 cannot be used: ")


def test_a_reading_of_power_and_clock_is_one_of_the_sample() -> None:
    read = NodeReadings(5.0, (GpuReading(0, utilization_pct=90.4, power_w=311.25, sm_clock_mhz=1980.0),))
    (sample,) = with_readings(seen(facts(1)), read, 6.0).samples
    assert (sample.utilization_pct, sample.power_mw, sample.sm_clock_mhz) == (90, 311_250, 1980)
    unread = NodeReadings(5.0, (GpuReading(0, utilization_pct=90.4),))
    (sample,) = with_readings(seen(facts(1)), unread, 6.0).samples
    assert (sample.power_mw, sample.sm_clock_mhz) == (None, None)
