"""Read groups of keys from YAML: known keys, their line numbers, and errors with file and line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from corral.config.mistakes import Collecting, Placed
from corral.config.readers import Reader
from corral.core.model.errors import Refused, nearest

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

NodeReader = Callable[[Path, "Node"], Any]
"""A function that reads the value of a key. The path is the file's, for messages."""


class Key(NamedTuple):
    """A key of a group: the name of the value that it sets, and its reader."""

    sets: str
    read: NodeReader


@dataclass(slots=True)
class KeyGroup:
    """The result of reading a group of keys.

    Attributes:
        values: the values by the names that they set.
        lines: "line 7" by key.
    """

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)


def one(read: Reader) -> NodeReader:
    """A reader of a key that takes a single value."""

    def read_one(_path: Path, node: "Node") -> Any:
        from yaml.nodes import ScalarNode

        if not isinstance(node, ScalarNode):
            raise Refused("write a single value, not a list or a group")
        return read(node)

    return read_one


def several(read: Reader) -> NodeReader:
    """A reader of a key that takes a list of single values, or one."""

    def read_several(_path: Path, node: "Node") -> tuple[Any, ...]:
        from yaml.nodes import ScalarNode, SequenceNode

        nodes = node.value if isinstance(node, SequenceNode) else [node]
        scalars = [each for each in nodes if isinstance(each, ScalarNode)]
        if len(scalars) < len(nodes):
            raise Refused("write a list of single values, such as [a, b]")
        return tuple(read(each) for each in scalars)

    return read_several


def read_group(path: Path, node: "MappingNode", keys: Mapping[str, Key], within: str = "") -> KeyGroup:
    """Read the keys of a group. `within` is the group's name with a dot, for messages.

    Raises Refused with file and line for each unknown key, repeated key, and invalid value.
    """
    found, wrong = KeyGroup(), Collecting()
    for key_node, value_node in node.value:
        key, place = str(key_node.value), f"{path}, {line_of(key_node)}"
        with wrong.at(f"{place}: {within}{key}", field=key):
            if key not in keys:
                raise Placed(f"{place}: {within}{key} is not a setting; {nearest(key, keys)}", field=key)
            if key in found.lines:
                raise Placed(
                    f"{place}: {within}{key} is already set in {found.lines[key]}; remove one of the two", field=key
                )
            found.lines[key] = line_of(key_node)
            found.values[keys[key].sets] = keys[key].read(path, value_node)
    wrong.tell()
    return found


def line_of(node: "Node") -> str:
    """The line in which a node begins: "line 7"."""
    return f"line {node.start_mark.line + 1}"


def lines_of(node: "Node") -> "MappingNode":
    """The node as a group of keys. Raises Refused if it is not one."""
    from yaml.nodes import MappingNode

    if not isinstance(node, MappingNode):
        raise Refused("write lines of KEY: VALUE below it")
    return node
