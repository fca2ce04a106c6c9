"""Matches readings to the slots of a node, as far as the readings name the pod of each GPU. Pure.

A slot is not a GPU: the kubelet gives a pod some of the node's GPUs, and a server only counts them. So a reading is
matched to a slot by its pod. GPUs of one pod are interchangeable, as are those without a pod: they are matched in the
order of their indices.
"""

from collections.abc import Collection, Mapping, Sequence

from corral.engines.kubernetes.inventory.occupants import PodName
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading


def readings_by_slot(
    slots: int, holders: Mapping[PodName, Collection[int]], gpus: Sequence[GpuReading]
) -> dict[int, GpuReading]:
    """Return the readings by slot. A slot is left out if its reading cannot be determined.

    Args:
        slots: the number of slots of the node.
        holders: the slots of each pod that has some.
        gpus: the node's readings. A reading whose pod has no slot here counts as one of a free GPU:
            its exporter may name itself, or a pod that has ended.
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
        # One pod has the whole node: the readings need not name it.
        by_pod = dict.fromkeys(parts, ordered)
    found: dict[int, GpuReading] = {}
    for pod, own in parts.items():
        read = by_pod.get(pod, [])
        # Another number of readings means that some of them do not name their pod, or not yet.
        if len(read) == len(own):
            found |= zip(own, read, strict=True)
    return found
