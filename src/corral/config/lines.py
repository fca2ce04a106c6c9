"""Read the settings that are lines of KEY: VALUE, or one value in place of these lines."""

from pathlib import Path
from typing import TYPE_CHECKING

from corral.config.groups import Key, line_of, lines_of, one, read_group, several
from corral.config.mistakes import Placed
from corral.config.readers import integer, number, one_of, text, version
from corral.core.model.devices.device import VirtualLayer
from corral.core.model.devices.means import Means
from corral.core.model.devices.version_labels import VERSION_LABELS
from corral.core.model.errors import Refused

if TYPE_CHECKING:
    from yaml.nodes import Node, ScalarNode

MAX_PRIORITY = 1_000_000
_LABEL_LENGTH = 200
_VGPU = {"layer": Key("layer", one(text)), "cuda": Key("cuda", one(version))}


def read_priority_range(path: Path, node: "Node") -> tuple[int, int]:
    """Read the lowest and the highest priority, such as `[5, 10]`."""
    ends = several(integer(-MAX_PRIORITY, MAX_PRIORITY))(path, node)
    if len(ends) != 2 or ends[0] > ends[1]:
        raise Refused("write the lowest and the highest priority, such as [5, 10]")
    return ends[0], ends[1]


def read_sharing(_path: Path, node: "Node") -> tuple[tuple[str, Means], ...]:
    """Read one means for all devices, or lines such as `0: mps`, `A100: timeslice`, `"*": exclusive`, in order."""
    from yaml.nodes import MappingNode, ScalarNode

    if isinstance(node, ScalarNode):
        return (("*", _shared_means(node)),)
    if not isinstance(node, MappingNode):
        raise Refused("write a single value or lines of DEVICE: VALUE, not a list")
    rules = []
    for which, means in node.value:
        if not isinstance(which, ScalarNode) or not isinstance(means, ScalarNode):
            raise Refused("write lines of DEVICE: VALUE, such as `0: mps`")
        rules.append((str(which.value), _shared_means(means)))
    return tuple(rules)


def read_layers(path: Path, node: "Node") -> tuple[tuple[str, VirtualLayer], ...]:
    """Read one layer for all devices, `{layer: gpu-manager, cuda: 12.2}`, or lines of devices and layers, in order."""
    lines = lines_of(node).value
    if {str(key.value) for key, _ in lines} & _VGPU.keys():
        return (("*", _layer(path, node)),)
    return tuple((str(which.value), _layer(path, layer)) for which, layer in lines)


def _layer(path: Path, node: "Node") -> VirtualLayer:
    said = read_group(path, lines_of(node), _VGPU, "vgpu.").values
    if len(said) < len(_VGPU):
        raise Refused("write the layer and the CUDA version it is built for: {layer: gpu-manager, cuda: 12.2}")
    return VirtualLayer(said["layer"], said["cuda"])


def read_labels(path: Path, node: "Node") -> tuple[tuple[str, str], ...]:
    """Read lines such as `zone: a`. The labels that the driver sets cannot be set here."""
    from yaml.nodes import ScalarNode

    labels: dict[str, str] = {}
    for key, value in lines_of(node).value:
        place = f"{path}, {line_of(key)}: labels"
        if not isinstance(key, ScalarNode) or not isinstance(value, ScalarNode):
            raise Placed(f"{place}: write lines of KEY: VALUE, such as `zone: a`", field="labels")
        for word in (str(key.value), str(value.value)):
            if not word or len(word) > _LABEL_LENGTH or not word.isprintable() or "=" in key.value:
                raise Placed(
                    f"{place}: {word!r:.60} cannot be part of a label; write lines such as `zone: a`", field="labels"
                )
        if key.value in VERSION_LABELS:
            raise Placed(f"{place}.{key.value} is set by the driver; choose another name", field="labels")
        if key.value in labels:
            raise Placed(f"{place}.{key.value} is given twice; remove one of the two", field="labels")
        labels[str(key.value)] = str(value.value)
    return tuple(sorted(labels.items()))


def read_placement(_path: Path, node: "Node") -> tuple[tuple[str, float], ...]:
    """Read the name of one score, or lines such as `pack: 1` and `topology: 0.5`."""
    from yaml.nodes import MappingNode, ScalarNode

    if isinstance(node, ScalarNode):
        return ((text(node), 1.0),)
    if not isinstance(node, MappingNode):
        raise Refused("write the name of a score, or lines of SCORE: WEIGHT, not a list")
    weights = []
    for name, weight in node.value:
        if not isinstance(name, ScalarNode) or not isinstance(weight, ScalarNode):
            raise Refused("write lines of SCORE: WEIGHT, such as `pack: 1`")
        weights.append((str(name.value), number(0.0, 1000.0)(weight)))
    return tuple(weights)


def _shared_means(node: "ScalarNode") -> Means:
    means: Means = one_of(Means)(node)
    if means is Means.MIG:
        raise Refused("mig cannot be set here: a device in MIG mode is always shared by its slices; remove this line")
    return means
