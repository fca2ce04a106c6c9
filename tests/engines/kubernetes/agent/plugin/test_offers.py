"""What a node offers to its kubelet: each device under one resource, and the sick ones as such."""

from dataclasses import replace

from corral.core.model.devices.device import Device
from corral.core.model.devices.means import Means
from corral.engines.kubernetes.agent.plugin.offers import offers, units_by_device
from tests.engines.kubernetes.agent.plugin.hosts import gpu, healthy, mig, node_of, uuid


def test_each_device_is_offered_by_its_means() -> None:
    devices = (
        gpu(0),
        gpu(1, means=Means.MPS),
        gpu(2, means=Means.HOOK),
        gpu(3, means=Means.MIG, mig_enabled=True),
        mig(3, "1g.5gb+me"),
        Device("amd-1", 5, "AMD MI300X", 196608, vendor="amd"),
    )
    found = {one.resource: one for one in offers(node_of(*devices), healthy(devices))}
    assert {resource: [device.uuid for device in one.devices] for resource, one in found.items()} == {
        "amd.com/gpu": ["amd-1"],
        "nvidia.com/gpu": [uuid(0)],
        "nvidia.com/mig-1g.5gb.me": [uuid(3).replace("GPU", "MIG")],
        "nvidia.com/mps-core": [uuid(1)],
        "tencent.com/vcuda-core": [uuid(2)],
    }
    assert {one.resource: len(one.all_ids) for one in found.values() if one.units > 1} == {
        "nvidia.com/mps-core": 100,
        "tencent.com/vcuda-core": 100,
    }


def test_memory_of_shared_devices_is_counted_in_the_units_of_its_resource() -> None:
    devices = (gpu(0, means=Means.MPS), gpu(1, means=Means.HOOK))
    found = {one.memory.name: one.memory_amount for one in offers(node_of(*devices), healthy(devices)) if one.memory}
    assert found == {"nvidia.com/mps-memory": 81920, "tencent.com/vcuda-memory": 320}


def test_a_device_that_is_sick_or_was_not_read_is_ill() -> None:
    devices = (gpu(0), gpu(1), gpu(2))
    samples = healthy(devices[:2])
    samples[uuid(0)] = replace(samples[uuid(0)], fault="it is lost")
    (found,) = offers(node_of(*devices), samples)
    assert [one.illness for one in found.devices] == ["it is lost", None, "it has not been read yet"]


def test_ids_of_devices_are_short_enough_for_a_kubelet() -> None:
    devices = (gpu(0, means=Means.MPS), mig(1, "1g.10gb"))
    assert max(len(one_id) for one in offers(node_of(*devices), {}) for one_id in one.all_ids) <= 63


def test_parts_are_counted_by_device() -> None:
    assert units_by_device(("a::1", "a::2", "b")) == {"a": 2, "b": 1}
