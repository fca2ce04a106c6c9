"""The devices of a node as far as its labels and its amounts tell: how many, and of which kind. Pure.

Nothing in a cluster tells which of them is which, so each is known by its node and its slot: a number from 0.
"""

from corral.kubernetes.cluster.amounts import GPU
from corral.kubernetes.cluster.node_facts import NodeFacts
from corral.model.device import Device
from corral.model.means import Means
from corral.vendors.nvidia.gpu_labels import read_gpu_labels
from corral.vendors.vendor import GpuLabels

MOST_SLOTS = 1024
"""A node that says it has more is nonsense: no more of them are known."""

UNKNOWN_MODEL = "unknown GPU"


def device_id(node: str, slot: int) -> str:
    """What stands for the UUID of a device that nobody has read one of."""
    return f"{node}.gpu-{slot}"


def slot_of_id(uuid: str) -> int:
    """The slot in an id that `device_id` made."""
    return int(uuid.rpartition("-")[2])


def slot_count(facts: NodeFacts) -> int:
    """How many devices the node has, sick ones too."""
    return min(MOST_SLOTS, max(facts.capacity.of(GPU), facts.allocatable.of(GPU)))


def sick_count(facts: NodeFacts) -> int:
    """How many of them its device plugin takes for sick: it does not tell which."""
    return slot_count(facts) - min(slot_count(facts), facts.allocatable.of(GPU))


def devices_of(facts: NodeFacts, slots: int) -> tuple[Device, ...]:
    """So many devices, from slot 0 on. Each is given whole: a cluster counts whole devices or replicas alone."""
    found = read_gpu_labels(facts.labels)
    model = UNKNOWN_MODEL if found.product is None else found.product.replace("NVIDIA-", "NVIDIA ", 1)
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
        )
        for slot in range(slots)
    )


def _memory_mib(found: GpuLabels) -> int | None:
    """Of each device. By MPS each replica has an equal part; by time slices what one may use is not known."""
    if found.shared_by is None or found.memory_mib is None:
        return found.memory_mib
    return found.memory_mib // found.replicas if found.shared_by is Means.MPS and found.replicas > 1 else None
