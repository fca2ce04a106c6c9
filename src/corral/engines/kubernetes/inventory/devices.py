"""The number and the model of a node's devices, by its labels and amounts. Pure.

A cluster does not identify single devices, so each is known by its node and its slot: a number from 0.
"""

from corral.core.model.devices.device import Device
from corral.core.model.devices.means import Means
from corral.engines.kubernetes.cluster.gpu_resources import gpu_labels, vendor_of_node
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.vendors.vendor import GpuLabels

MOST_SLOTS = 1024
"""The most devices of a node. A higher number is considered invalid."""

UNKNOWN_MODEL = "unknown GPU"


def device_id(node: str, slot: int) -> str:
    """Return the substitute for the UUID of a device whose UUID is unknown."""
    return f"{node}.gpu-{slot}"


def slot_of_id(uuid: str) -> int:
    """Return the slot in an id that `device_id` has made."""
    return int(uuid.rpartition("-")[2])


def slot_count(facts: NodeFacts) -> int:
    """Return the number of devices of the node, unhealthy ones included."""
    gpu = vendor_of_node(facts).kubernetes.gpu
    return min(MOST_SLOTS, max(facts.capacity.of(gpu), facts.allocatable.of(gpu)))


def sick_count(facts: NodeFacts) -> int:
    """Return the number of devices that the device plugin reports as unhealthy. It does not say which."""
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
        )
        for slot in range(slots)
    )


def _memory_mib(found: GpuLabels) -> int | None:
    """Return the memory of each device in MiB, or None. With MPS each replica has an equal part; with time slices it is
    unknown.
    """
    if found.shared_by is None or found.memory_mib is None:
        return found.memory_mib
    return found.memory_mib // found.replicas if found.shared_by is Means.MPS and found.replicas > 1 else None
