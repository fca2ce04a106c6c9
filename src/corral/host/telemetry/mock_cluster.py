"""Reads the nodes of a mock file: `[[nodes]]`, each with its name, its host's resources, and its `[[nodes.devices]]`.

A file without `[[nodes]]` describes one node, with the name of this host.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.core.model.devices.version_labels import VERSION_LABELS
from corral.core.model.errors import Refused, nearest
from corral.core.model.units import parse_memory_mib
from corral.host.telemetry.mock_file import FILE_KEYS, MockBox, read_box
from corral.host.telemetry.toml_table import Table, a_bool, a_string, an_int, read_document

_NODE_KEYS = ("name", "cpus", "memory", "disk", "labels", "devices", "silent", "gone")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LABEL_LENGTH = 200

Stamp = tuple[int, int, int]
"""Values that change with every edit of a file: its modification time, its size, and its inode."""


@dataclass(frozen=True, slots=True)
class MockNode:
    """A described node; a value of None is taken from this host.

    Attributes:
        silent: its agent does not answer, and its jobs run on.
        gone: it behaves like a node that is switched off.
    """

    name: str | None
    box: MockBox
    cpu_milli: int | None = None
    memory_mib: int | None = None
    disk_mib: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    silent: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True)
class MockCluster:
    """All nodes of a file, in its order."""

    path: Path
    nodes: tuple[MockNode, ...]

    @property
    def named(self) -> bool:
        """Whether the file has `[[nodes]]`."""
        return self.nodes[0].name is not None

    def node(self, name: str | None) -> MockNode:
        """Return the node with that name; None is the only one. Raises Refused if there is no such node."""
        if name is None and len(self.nodes) == 1:
            return self.nodes[0]
        names = [node.name for node in self.nodes if node.name is not None]
        found = next((node for node in self.nodes if node.name == name), None)
        if found is None and not self.named:
            return self.nodes[0]
        if found is None:
            hint = f"it has {', '.join(names)}" if name is None else nearest(name, names)
            raise Refused(f"{self.path} describes no node {name or 'of this host alone'}; {hint}", field="node")
        return found


def read_mock_cluster(path: Path) -> MockCluster:
    """Return the nodes that the file describes.

    Raises Refused if the file cannot be read, is no TOML, or has an invalid value. The message names the line and, for
    an unknown key, the nearest known one.
    """
    top = read_document(path)
    top.expect_keys((*FILE_KEYS, "nodes"))
    if "nodes" not in top.data:
        return MockCluster(path, (MockNode(None, read_box(top, top, {})),))
    if "devices" in top.data:
        raise top.refuse("devices", "this file lists nodes, so each device is under its node: write [[nodes.devices]]")
    rows = top.tables("nodes")
    if not rows:
        raise top.refuse("nodes", "nodes is empty; write [[nodes]], or leave it out for one node")
    known: dict[str, str] = {}
    nodes: list[MockNode] = []
    for row in rows:
        node = _read_node(top, row, known)
        if any(node.name == other.name for other in nodes):
            raise row.refuse("name", f"there is a node {node.name} already; each node has its own name")
        nodes.append(node)
    return MockCluster(path, tuple(nodes))


class ChangingMockFile:
    """A mock file that may be edited at any time. For one thread. Reading raises as `read_mock_cluster`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: Stamp | None = None

    def read(self) -> MockCluster:
        """Return the nodes that the file describes now."""
        self._stamp = _stamp_of(self.path)
        return read_mock_cluster(self.path)

    def read_if_changed(self) -> MockCluster | None:
        """Return the nodes that the file describes, None if the file is unchanged since the last read."""
        return None if _stamp_of(self.path) == self._stamp else self.read()


def _stamp_of(path: Path) -> Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read_node(top: Table, row: Table, known: dict[str, str]) -> MockNode:
    row.expect_keys(_NODE_KEYS)
    name = row.need("name", _a_name, "a name of letters, digits, dots, hyphens and underscores, such as gpu-01")
    called = Table(row.data, row.document, row.at, f"node {name}")
    cpus = called.get("cpus", None, an_int(1, 65536), "a number of CPUs")
    return MockNode(
        name=name,
        box=read_box(top, called, known),
        cpu_milli=None if cpus is None else 1000 * cpus,
        memory_mib=called.get("memory", None, _size, 'a size with a unit, such as "128G"'),
        disk_mib=called.get("disk", None, _size, 'a size with a unit, such as "1T"'),
        labels=_read_labels(called),
        silent=called.get("silent", False, a_bool, "true or false"),
        gone=called.get("gone", False, a_bool, "true or false"),
    )


def _read_labels(row: Table) -> tuple[tuple[str, str], ...]:
    labels: dict[str, Any] = row.get("labels", {}, _a_table, 'a table such as { zone = "a" }')
    for key, value in labels.items():
        if key in VERSION_LABELS:
            raise row.refuse("labels", f"label {key} is what the driver says; give it another name")
        if not _are_words((key, value)) or "=" in key:
            raise row.refuse("labels", f'{key!r:.60} = {value!r:.60} is not a label; write {{ zone = "a" }}')
    return tuple(sorted(labels.items()))


def _are_words(words: Iterable[Any]) -> bool:
    return all(isinstance(word, str) and word.isprintable() and 0 < len(word) <= _LABEL_LENGTH for word in words)


def _a_name(value: Any) -> str:
    if not _NAME.fullmatch(a_string(value)):
        raise ValueError
    return str(value)


def _a_table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _size(value: Any) -> int:
    return parse_memory_mib(a_string(value))
