"""The nodes that a server brings with it: its own host, or the nodes of a mock cluster."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from corral.clock import SystemClock
from corral.config import Settings
from corral.model.home import Home
from corral.node.local import LocalNode
from corral.ports.node import NodeAgent
from corral.telemetry.host import host_node
from corral.telemetry.mock_cluster import read_mock_cluster

if TYPE_CHECKING:
    from corral.node.mock_nodes import Joined, Left


class Hosts(Protocol):
    """Agents of nodes, and what becomes of them."""

    @property
    def source(self) -> str:
        """What reads their devices: "NVML", "mock"."""
        ...

    def start(self) -> Mapping[str, NodeAgent]:
        """The agent of each node, by name. Raises BackendFailed."""
        ...

    def watch(self, joined: "Joined", left: "Left") -> None:
        """Tell of nodes that come and go from now on."""
        ...

    def close(self) -> None:
        """Let go; what runs there runs on."""
        ...


def find_hosts(home: Home, settings: Settings, clock: SystemClock, mock: Path | None) -> Hosts:
    """This host, with its devices or those of a mock file, or the nodes of that file. Raises Refused for a bad file."""
    if mock is not None and read_mock_cluster(mock).named:
        # A server of one host needs nothing of what spawns agents and speaks to them.
        from corral.node.mock_nodes import MockNodes

        return MockNodes(home, mock)
    return _ThisHost(home, settings, clock, mock)


class _ThisHost:
    """One node, in this process."""

    def __init__(self, home: Home, settings: Settings, clock: SystemClock, mock: Path | None) -> None:
        self._node = LocalNode(home, settings, clock, mock=mock)

    @property
    def source(self) -> str:
        return self._node.source

    def start(self) -> Mapping[str, NodeAgent]:
        found = self._node.news(0, 0.0).node
        return {host_node().name if found is None else found.name: self._node}

    def watch(self, joined: "Joined", left: "Left") -> None:
        """It neither comes nor goes."""

    def close(self) -> None:
        self._node.close()
