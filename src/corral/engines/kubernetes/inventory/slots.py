"""Assigns the slots of a node to pods of others, and readings of GPUs to slots. Pure.

A cluster tells how many devices a pod has, but not which. So pods of others get slots that no job of Corral has. They
keep their slots as long as possible, so that the display of a device does not change without a reason.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from corral.engines.kubernetes.inventory.occupants import PodName
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A pod that takes `devices` of a node's devices; `uid` is the pod's."""

    uid: str
    devices: int


@dataclass(frozen=True, slots=True)
class SlotUse:
    """The use of the slots of a node.

    Attributes:
        pods: the UID of the other scheduler's pod on each slot that has one.
        sick: the slots that count as unhealthy.
    """

    pods: Mapping[int, str] = field(default_factory=dict)
    sick: frozenset[int] = frozenset()


def assign(
    slots: int,
    held: Collection[int],
    others: Sequence[PodClaim],
    sick: int,
    before: SlotUse,
    *,
    chosen: Collection[int] = (),
) -> SlotUse:
    """Give each pod of others as many slots as it has devices, the last free slots first, as far as there are enough.

    Args:
        slots: the number of slots of the node.
        held: the slots of jobs.
        others: the pods, in a stable order.
        sick: the number of unhealthy devices; free slots count as unhealthy first.
        before: the earlier use.
        chosen: slots that jobs are about to get; a pod gets one only if no other is free.
    """
    # A report may name thousands of pods and devices, so nothing here is done for each pair of them.
    taken: dict[int, str] = {}
    free = [slot for slot in range(slots) if slot not in held]
    had: dict[str, list[int]] = {}
    for slot in free:
        if slot in before.pods:
            had.setdefault(before.pods[slot], []).append(slot)
    for claim in others:
        taken |= dict.fromkeys(had.get(claim.uid, [])[: claim.devices], claim.uid)
    count = Counter(taken.values())
    # The planner gives out the first slots first, so a pod that comes at the same time rarely collides with it.
    left = iter(sorted((slot for slot in free if slot not in taken), key=lambda slot: (slot in chosen, -slot)))
    for claim in others:
        newly = list(islice(left, max(0, claim.devices - count[claim.uid])))
        taken |= dict.fromkeys(newly, claim.uid)
        count[claim.uid] += len(newly)
    return SlotUse(dict(sorted(taken.items())), _sick(slots, held, taken, sick, before))


def _sick(slots: int, held: Collection[int], taken: Mapping[int, str], count: int, before: SlotUse) -> frozenset[int]:
    """Return the slots that count as unhealthy: free slots first, then those of others. A slot that was unhealthy stays
    so.
    """

    def rank(slot: int) -> tuple[bool, bool, bool, int]:
        return slot in held, slot in taken, slot not in before.sick, -slot

    return frozenset(sorted(range(slots), key=rank)[:count])


def readings_by_slot(
    slots: int, holders: Mapping[PodName, Collection[int]], gpus: Sequence[GpuReading]
) -> dict[int, GpuReading]:
    """Return the readings by slot. A slot is left out if its reading cannot be determined.

    A reading is matched by its pod, because the kubelet does not say which GPU of the node a pod got. GPUs of one pod
    are interchangeable, as are GPUs without a pod: they are matched in the order of their indices.

    Args:
        slots: the number of slots of the node.
        holders: the slots of each pod that has some.
        gpus: the node's readings. A reading whose pod has no slot here counts as the reading of a
            free GPU: an exporter may report its own pod, or a pod that has ended.
    """
    ordered = sorted(gpus, key=lambda gpu: gpu.index)
    by_pod: dict[PodName | None, list[GpuReading]] = {}
    for gpu in ordered:
        by_pod.setdefault(gpu.pod if gpu.pod in holders else None, []).append(gpu)
    taken = {slot for held in holders.values() for slot in held}
    parts: dict[PodName | None, list[int]] = {pod: sorted(held) for pod, held in holders.items()}
    if free := [slot for slot in range(slots) if slot not in taken]:
        parts[None] = free
    if len(parts) == 1 and by_pod.keys() == {None}:
        # A single pod has the whole node, so the readings need not name the pod.
        by_pod = dict.fromkeys(parts, ordered)
    found: dict[int, GpuReading] = {}
    for pod, own in parts.items():
        read = by_pod.get(pod, [])
        # Another number of readings means that some of them do not name their pod, or not yet.
        if len(read) == len(own):
            found |= zip(own, read, strict=True)
    return found
