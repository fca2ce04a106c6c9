"""Which slot of a node has which reading, as far as the readings tell whose GPU each is. Pure.

A slot is not a GPU: the kubelet gives a pod some of the node's GPUs, and a server counts them. So a reading belongs to
a slot by its pod. Of GPUs of one pod, and of those that nobody has, none differs from the others: they go in the order
of their indices.
"""

from collections.abc import Collection, Mapping, Sequence

from corral.kubernetes.inventory.occupants import PodName
from corral.kubernetes.inventory.readings.gpu_reading import GpuReading


def readings_by_slot(
    slots: int, holders: Mapping[PodName, Collection[int]], gpus: Sequence[GpuReading]
) -> dict[int, GpuReading]:
    """The readings by slot. A slot is left out where it cannot be told which reading is its own.

    Args:
        slots: how many the node has.
        holders: the slots of each pod that has some.
        gpus: the node's readings. One whose pod has no slot here is of a GPU that nobody has: its exporter may name
            itself, or a pod that has ended.
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
        # One pod has the whole node: whose the GPUs are needs no telling.
        by_pod = dict.fromkeys(parts, ordered)
    found: dict[int, GpuReading] = {}
    for pod, own in parts.items():
        read = by_pod.get(pod, [])
        # Any other number says that somebody's GPUs are not told as theirs, or not yet.
        if len(read) == len(own):
            found |= zip(own, read, strict=True)
    return found
