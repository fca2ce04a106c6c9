"""The GPUs of a site that a task's experiments can get. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from corral.core.model.answers.devices import DeviceRow
from corral.core.model.answers.site import NodeRow
from corral.core.model.devices.device import Node
from corral.core.model.devices.model_and_profile_match import model_matches
from corral.core.model.jobs.job import Request
from corral.features.tuner.deployments.node_layout import GpuCounts


def obtainable(request: Request, devices: Sequence[DeviceRow], nodes: Sequence[NodeRow]) -> tuple[DeviceRow, ...]:
    """Return the whole GPUs that meet the conditions of a request. A GPU of unknown memory meets any minimum."""
    labels: Mapping[str, Mapping[str, str]] = {node.name: node.labels for node in nodes}
    return tuple(
        device
        for device in devices
        if device.parent is None
        and model_matches(request.models, device.name)
        and (not request.device_uuids or device.uuid in request.device_uuids)
        and (device.memory_total_mib is None or device.memory_total_mib >= (request.min_memory_mib or 0))
        and request.allows_node(device.node or "")
        and set(request.labels) <= labels.get(device.node or "", {}).items()
    )


class ObtainableGpus(NamedTuple):
    """The obtainable GPUs: their numbers by node, and the memory of the largest one as `most_memory_mib` returns it."""

    counts: GpuCounts
    memory_mib: int | None


def obtainable_gpus(request: Request, nodes: Iterable[Node]) -> ObtainableGpus:
    """Return such GPUs of the nodes."""
    least = request.min_memory_mib or 0
    found = {
        node.name: [
            device
            for device in node.devices
            if device.parent_uuid is None
            and model_matches(request.models, device.model)
            and (not request.device_uuids or device.uuid in request.device_uuids)
            and (device.memory_mib is None or device.memory_mib >= least)
        ]
        for node in nodes
        if request.allows_node(node.name) and set(request.labels) <= set(node.labels)
    }
    counts = {name: Counter(device.model for device in devices) for name, devices in found.items()}
    return ObtainableGpus(counts, _largest([device.memory_mib for devices in found.values() for device in devices]))


def most_memory_mib(devices: Sequence[DeviceRow]) -> int | None:
    """Return the memory of the largest GPU in MiB, None if the memory of one is not known, or there is none."""
    return _largest([device.memory_total_mib for device in devices])


def _largest(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return max(known) if known and len(known) == len(sizes) else None
