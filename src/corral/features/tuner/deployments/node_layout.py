"""The layout of an inference server on nodes: all of it on one, or as equal members on nodes of their own. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from corral.core.model.answers.devices import DeviceRow
from corral.features.tuner.deployments.deployment import WantedGpus

GpuCounts = Mapping[str, Mapping[str, int]]
"""The number of whole GPUs by node and model."""


WhyNot = Callable[[int], str | None]
"""Returns why a server cannot run on a number of nodes, None if no reason is known."""


class NodeLayout(NamedTuple):
    """A layout: the members, the GPUs of each, and the model that all of these have; None on a single node."""

    members: int
    gpus: int
    model: str | None = None


def laid_out(wanted: WantedGpus, devices: Iterable[DeviceRow], why_not: WhyNot) -> WantedGpus:
    """Return the GPUs to ask for, those of a gang if none of the devices' nodes has so many.

    `devices` are those that meet the conditions. If no gang can have the GPUs either, the request stays as it is.
    """
    layout = node_layout(wanted.used, gpu_counts(devices), why_not)
    if isinstance(layout, str):
        return wanted._replace(not_over_nodes=layout)
    if layout.model is None:
        return wanted
    each = wanted.request.devices if wanted.exclusive else layout.gpus
    gang = replace(wanted.request, devices=each, gang_size=layout.members, spread=True, models=(layout.model,))
    return wanted._replace(request=gang)


def node_layout(count: int, there: GpuCounts, why_not: WhyNot) -> NodeLayout | str:
    """Return the layout with the fewest nodes for a server with this number of GPUs, or why none has several nodes.

    A layout over nodes has GPUs of one model, because a slower member would slow the others.
    """
    largest = max((sum(models.values()) for models in there.values()), default=0)
    if count <= largest:
        return NodeLayout(1, count)
    reasons = []
    for members in range(2, count + 1):
        model = None if count % members else _model_of_equal_members(members, count // members, there)
        if model is None:
            continue
        reason = why_not(members)
        if reason is None:
            return NodeLayout(members, count // members, model)
        reasons.append(reason)
    return reasons[0] if reasons else _not_enough(count, there)


def gpu_counts(devices: Iterable[DeviceRow]) -> GpuCounts:
    """Return the numbers of whole GPUs among the devices of a site."""
    counts: dict[str, Counter[str]] = {}
    for device in devices:
        if device.parent is None:
            counts.setdefault(device.node or "", Counter())[device.name] += 1
    return counts


def _model_of_equal_members(members: int, gpus: int, there: GpuCounts) -> str | None:
    """Return the model with the most nodes that have this number of GPUs of it, None if too few nodes have them."""
    nodes = Counter(model for models in there.values() for model, count in models.items() if count >= gpus)
    model, count = min(nodes.items(), key=lambda one: (-one[1], one[0]), default=("", 0))
    return model if count >= members else None


def _not_enough(count: int, there: GpuCounts) -> str:
    nodes = ", ".join(f"{name or 'this node'} {sum(models.values())}" for name, models in sorted(there.items()))
    return f"no equal parts of {count} fit on several nodes with GPUs of one model ({nodes or 'there are no GPUs'})"
