"""The engines that need nothing but this host: its own devices, or the nodes of a mock cluster."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from corral.clock import SystemClock
from corral.config import Settings
from corral.core.model.home import Home
from corral.core.ports.engine import EngineTraits, Joined, Left, NodeEngine
from corral.core.ports.node import NodeAgent
from corral.core.ports.pod_jobs import PodJobs
from corral.host.node.local import LocalNode, docker_site
from corral.host.runtimes.docker.presence import no_docker
from corral.host.runtimes.docker.site import DockerSite
from corral.host.runtimes.process.runtime import CONTAINER
from corral.host.telemetry.host import host_node
from corral.host.telemetry.mock_cluster import read_mock_cluster

log = logging.getLogger(__name__)


def find_host_engine(
    home: Home,
    settings: Settings,
    clock: SystemClock,
    mock: Path | None,
    allocations: Mapping[str, Iterable[str]],
    *,
    other_hosts: Callable[[], bool] = lambda: False,
) -> NodeEngine:
    """Return the engine: this host with its own devices or those of a mock file, or the nodes of a mock cluster. Raises
    Refused for an invalid file.

    `allocations` are the ids of the allocations that the ledger has on each node. `other_hosts` says whether jobs may
    also run on other hosts.
    """
    if mock is not None and read_mock_cluster(mock).named:
        # This module is imported late: a server of one host spawns no agents and needs no code for that.
        from corral.host.node.mock.mock_nodes import MockNodes

        return MockNodes(home, mock, _containers(settings, other_hosts))
    containers = _containers(settings, other_hosts)
    return _ThisHost(home, settings, clock, mock, former_name(home, allocations), containers=containers)


def _containers(settings: Settings, other_hosts: Callable[[], bool]) -> DockerSite:
    """Return the rules for jobs in containers. Without other hosts, all nodes share this host's Docker."""
    return replace(docker_site(settings), no_docker=lambda: None if other_hosts() else no_docker())


def former_name(home: Home, allocations: Mapping[str, Iterable[str]]) -> str | None:
    """Return the name that this host had when it started jobs that still run; None if it is the present name.

    A host may be renamed while they run, as by DHCP. Their records are then below this home, though the ledger has them
    on a node of another name: under the new name they would count as lost.
    """
    name = host_node().name
    others = [other for other, ids in allocations.items() if any(_on_record(home, one) for one in ids)]
    if name in allocations or len(others) != 1:
        return None
    log.warning("this host is now called %s; its node stays %s, under which its jobs run", name, others[0])
    return others[0]


def _on_record(home: Home, launch_id: str) -> bool:
    return any((home.launches / name).exists() for name in (launch_id, CONTAINER + launch_id))


class _ThisHost:
    """Implements `corral.core.ports.engine.NodeEngine`: one node, in this process."""

    remarks = ()
    pod_scheduler = None

    def __init__(
        self,
        home: Home,
        settings: Settings,
        clock: SystemClock,
        mock: Path | None,
        name: str | None,
        *,
        containers: DockerSite,
    ) -> None:
        self._home = home
        self._node = LocalNode(home, settings, clock, mock=mock, name=name)
        source = self._node.source
        self.traits = EngineTraits(source, here=source != "mock", containers=containers)

    def log_path(self, node: str, job_id: str, rank: int) -> str | None:
        return str(self._home.log_of(job_id, rank))

    def start(self) -> Mapping[str, NodeAgent]:
        found = self._node.news.since(0, 0.0).node
        return {host_node().name if found is None else found.name: self._node}

    def on_record(self) -> tuple[str, ...]:
        """Return (): the home of this node is the server's."""
        return ()

    def at_work(self) -> tuple[str, ...]:
        """Return (): the home of this node is the server's."""
        return ()

    def departed(self, node: str) -> NodeAgent | None:
        """Return None: this node never leaves."""
        return None

    def attend(self, jobs: PodJobs) -> None:
        """Do nothing: there are no pods here."""

    def watch(self, joined: Joined, left: Left) -> None:
        """Do nothing: this host neither comes nor goes."""

    def close(self) -> None:
        self._node.close()
