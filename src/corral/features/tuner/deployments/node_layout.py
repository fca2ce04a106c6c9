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
    """A layout: the members, the GPUs of each, and the model that all of these have.

    The model is None where any will do: the GPUs of one node, if no node could mix models.
    """

    members: int
    gpus: int
    model: str | None = None


def node_layout(count: int, there: GpuCounts, why_not: WhyNot, *, exclusive: bool = False) -> NodeLayout | str:
    """Return the layout with the fewest nodes for a server with this number of GPUs, or why there is none.

    A layout has GPUs of one model, because a slower GPU would slow the others. With `exclusive` the server has all GPUs
    of a node.
    """
    most = most_of_one_model(there)
    if count <= most:
        mixed = may_mix(count, there, exclusive=exclusive)
        return NodeLayout(1, count, _model_on_one_node(count, there) if mixed else None)
    reasons = []
    fewest = -(-count // most) if most else count + 1
    for members in range(fewest, min(count, len(there)) + 1):
        model = None if count % members else _model_of_equal_members(members, count // members, there)
        if model is None:
            continue
        reason = why_not(members)
        if reason is None:
            return NodeLayout(members, count // members, model)
        reasons.append(reason)
    return reasons[0] if reasons else _not_enough(count, there)


def may_mix(count: int, there: GpuCounts, *, exclusive: bool = False) -> bool:
    """Return whether a node could give GPUs of several models to a request for this number."""
    several = exclusive or count > 1
    return several and any(len(models) > 1 and sum(models.values()) >= count for models in there.values())


def most_of_one_model(there: GpuCounts, model: str | None = None) -> int:
    """Return the largest number of GPUs of one model on a node; `model` None: of any."""
    return max(
        (count for models in there.values() for name, count in models.items() if model in (None, name)), default=0
    )


def gpu_counts(devices: Iterable[DeviceRow]) -> GpuCounts:
    """Return the numbers of whole GPUs among the devices of a site."""
    counts: dict[str, Counter[str]] = {}
    for device in devices:
        if device.parent is None:
            counts.setdefault(device.node or "", Counter())[device.name] += 1
    return counts


def _model_on_one_node(count: int, there: GpuCounts) -> str:
    """Return the model with the most GPUs of those that have this number on one node."""
    total: Counter[str] = Counter()
    for models in there.values():
        total.update(models)
    holding = {model for models in there.values() for model, number in models.items() if number >= count}
    return min(holding, key=lambda model: (-total[model], model))


def _model_of_equal_members(members: int, gpus: int, there: GpuCounts) -> str | None:
    """Return the model with the most nodes that have this number of GPUs of it, None if too few nodes have them."""
    nodes = Counter(model for models in there.values() for model, count in models.items() if count >= gpus)
    model, count = min(nodes.items(), key=lambda one: (-one[1], one[0]), default=("", 0))
    return model if count >= members else None


def _not_enough(count: int, there: GpuCounts) -> str:
    """Return in words that no gang has so many GPUs, with the largest nodes."""
    sizes = Counter((sum(models.values()), _in_words(models)) for models in there.values())
    largest = sorted(sizes, reverse=True)[:_TOLD]
    nodes = ", ".join(f"{count_of(sizes[size], 'node')} with {size[1]}" for size in largest)
    return f"no equal parts of {count} fit on several nodes with GPUs of one model ({nodes or 'no node has a GPU'})"


def _in_words(models: Mapping[str, int]) -> str:
    """Return the GPUs of a node: "8", or "2 A100 and 2 L4"."""
    if len(models) < 2:
        return str(sum(models.values()))
    return " and ".join(f"{models[model]} {model}" for model in sorted(models))
