"""The layout of an inference server on nodes: all of it on one, or as equal members on nodes of their own. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from corral.core.model.answers.devices import DeviceRow
from corral.core.model.units import count_of

GpuCounts = Mapping[str, Mapping[str, int]]
"""The number of whole GPUs by node and model."""

_TOLD = 5
"""The most sizes of nodes in a message."""

WhyNot = Callable[[int], str | None]
"""Returns why a server cannot run on a number of nodes, None if no reason is known."""


class NodeLayout(NamedTuple):
    """A layout: the members, the GPUs of each, and the model that all of these have; None on a single node."""

    members: int
    gpus: int
    model: str | None = None


def node_layout(count: int, there: GpuCounts, why_not: WhyNot) -> NodeLayout | str:
    """Return the layout with the fewest nodes for a server with this number of GPUs, or why none has several nodes.

    A layout over nodes has GPUs of one model, because a slower member would slow the others.
    """
    largest = max((sum(models.values()) for models in there.values()), default=0)
    if count <= largest:
        return NodeLayout(1, count)
    reasons = []
    for members in range(2, min(count, len(there)) + 1):
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
    """Return in words that no gang has so many GPUs, with the largest nodes."""
    sizes = Counter(sum(models.values()) for models in there.values())
    nodes = ", ".join(f"{count_of(sizes[size], 'node')} with {size}" for size in sorted(sizes, reverse=True)[:_TOLD])
    return f"no equal parts of {count} fit on several nodes with GPUs of one model ({nodes or 'no node has a GPU'})"
