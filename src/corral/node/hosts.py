"""The nodes that a server brings with it: its own host, or the nodes of a mock cluster."""

import logging
from collections.abc import Iterable, Mapping
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


log = logging.getLogger(__name__)


class Hosts(Protocol):
    """Agents of nodes, and what becomes of them."""

    @property
    def source(self) -> str:
        """What reads their devices: "NVML", "mock"."""
        ...

    def home_of(self, node: str) -> Home:
        """The home of a node's agent, on its host; also of one that has left."""
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


def find_hosts(
    home: Home,
    settings: Settings,
    clock: SystemClock,
    mock: Path | None,
    allocations: Mapping[str, Iterable[str]],
) -> Hosts:
    """This host, with its devices or those of a mock file, or the nodes of that file. Raises Refused for a bad file.

    `allocations` are the ids of those that the ledger has on each node.
    """
    if mock is not None and read_mock_cluster(mock).named:
        # A server of one host needs nothing of what spawns agents and speaks to them.
        from corral.node.mock_nodes import MockNodes

        return MockNodes(home, mock)
    return _ThisHost(home, settings, clock, mock, former_name(home, allocations))


def former_name(home: Home, allocations: Mapping[str, Iterable[str]]) -> str | None:
    """What this host was called when it started the jobs that it still runs, None where that is its name.

    A host may be renamed under them, as by DHCP. The records of their launches are then below this home, though the
    ledger has them on a node of another name: under the new name they would be taken for lost.
    """
    name = host_node().name
    others = [other for other, ids in allocations.items() if any((home.launches / one).exists() for one in ids)]
    if name in allocations or len(others) != 1:
        return None
    log.warning("this host is now called %s; its node stays %s, under which its jobs run", name, others[0])
    return others[0]


class _ThisHost:
    """One node, in this process."""

    def __init__(self, home: Home, settings: Settings, clock: SystemClock, mock: Path | None, name: str | None) -> None:
        self._home = home
        self._node = LocalNode(home, settings, clock, mock=mock, name=name)

    @property
    def source(self) -> str:
        return self._node.source

    def home_of(self, node: str) -> Home:
        return self._home

    def start(self) -> Mapping[str, NodeAgent]:
        found = self._node.news(0, 0.0).node
        return {host_node().name if found is None else found.name: self._node}

    def watch(self, joined: "Joined", left: "Left") -> None:
        """It neither comes nor goes."""

    def close(self) -> None:
        self._node.close()
