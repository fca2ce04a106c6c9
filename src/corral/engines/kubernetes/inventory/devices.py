"""The number and the model of a node's devices, by its labels and amounts. Pure.

A cluster does not identify single devices, so each is known by its node and its slot: a number from 0.
"""

import re

from corral.core.model.devices.device import Device
from corral.core.model.devices.means import Means
from corral.engines.kubernetes.cluster.gpu_resources import gpu_labels, vendor_of_node
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.engines.kubernetes.shares.served_shares import ServedShares
from corral.vendors.vendor import GpuLabels

MOST_SLOTS = 1024
"""The most devices of a node. A higher number is considered invalid."""

UNKNOWN_MODEL = "unknown GPU"

_COUNTED = re.compile(r".+\Wgpu-\d{1,4}", re.ASCII)


def device_id(node: str, slot: int) -> str:
    """Return the substitute for the UUID of a device whose UUID is unknown."""
    return f"{node}.gpu-{slot}"


def is_counted(uuid: str) -> bool:
    """Return whether this is an id that `device_id` has made, and no UUID."""
    return _COUNTED.fullmatch(uuid) is not None


def slot_of_id(uuid: str) -> int:
    """Return the slot in an id that `device_id` has made."""
    return int(uuid.rpartition("-")[2])


def slot_count(facts: NodeFacts, shared: ServedShares | None = None) -> int:
    """Return the number of devices of the node, unhealthy ones included. `shared` are those of which it gives parts."""
    if shared is not None:
        return len(shared.devices)
    gpu = vendor_of_node(facts).kubernetes.gpu
    return min(MOST_SLOTS, max(facts.capacity.of(gpu), facts.allocatable.of(gpu)))


def sick_count(facts: NodeFacts, shared: ServedShares | None = None) -> int:
    """Return the number of devices that the device plugin reports as unhealthy. It does not say which."""
    if shared is not None:
        return shared.sick
    offered = facts.allocatable.of(vendor_of_node(facts).kubernetes.gpu)
    return slot_count(facts) - min(slot_count(facts), offered)


def devices_of(facts: NodeFacts, slots: int) -> tuple[Device, ...]:
    """Return the devices of slots 0 to `slots` - 1. Each is whole: a cluster counts only whole devices or replicas."""
    vendor, found = vendor_of_node(facts), gpu_labels(facts)
    model = UNKNOWN_MODEL if found.product is None else vendor.kubernetes.model(found.product)
    return tuple(
        Device(
            device_id(facts.name, slot),
            slot,
            model,
            _memory_mib(found),
            compute_capability=found.compute,
            means=found.shared_by or Means.EXCLUSIVE,
            mig_profile=found.profile,
            replica=found.shared_by is not None,
            vendor=vendor.name,
            offered_as=(vendor.kubernetes.gpu,),
        )
        for slot in range(slots)
    )


def shared_devices(facts: NodeFacts, shared: ServedShares, slots: int) -> tuple[Device, ...]:
    """Return the devices of slots 0 to `slots` - 1 of a node that gives parts of its devices.

    They are exclusive if their software cannot share them, or the labels do not say that it can.
    """
    layer, vendor = shared.layer, shared.vendor
    found = vendor.kubernetes.read_labels(facts.labels)
    too_old = [
        least is not None and (has is None or has < least)
        for least, has in ((layer.min_compute, found.compute), (layer.min_cuda, found.cuda_version))
    ]
    devices = []
    for slot in range(slots):
        known = shared.devices[slot] if slot < len(shared.devices) else None
        product = found.product or (None if known is None else known.model)
        devices.append(
            Device(
                device_id(facts.name, slot),
                slot,
                UNKNOWN_MODEL if product is None else vendor.kubernetes.model(product),
                found.memory_mib if known is None or known.memory_mib is None else known.memory_mib,
                compute_capability=found.compute,
                means=Means.EXCLUSIVE if any(too_old) else layer.means,
                vendor=vendor.name,
                offered_as=shared.offered_as,
            )
        )
    return tuple(devices)


def _memory_mib(found: GpuLabels) -> int | None:
    """Return the memory of each device in MiB, or None. With MPS each replica has an equal part; with time slices it is
    unknown.
    """
    if found.shared_by is None or found.memory_mib is None:
        return found.memory_mib
    return found.memory_mib // found.replicas if found.shared_by is Means.MPS and found.replicas > 1 else None
