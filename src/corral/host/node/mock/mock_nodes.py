"""The nodes of a mock cluster: an agent for each node on this host, started and ended by the mock file."""

import logging
import threading
from contextlib import suppress
from pathlib import Path

from corral.core.model.errors import CorralError, Refused
from corral.core.model.home import Home
from corral.core.ports.containers import Containers
from corral.core.ports.engine import EngineTraits, Joined, Left
from corral.core.ports.node import NodeAgent
from corral.core.ports.pod_jobs import PodJobs
from corral.host.node.mock.spawn import AgentSpawner
from corral.host.node.remote import AgentSocket, RemoteNode
from corral.host.telemetry.mock_cluster import ChangingMockFile, MockCluster

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 0.5


class MockNodes:
    """Implements `corral.core.ports.engine.NodeEngine`. Each node of the file that is not gone has a running agent.

    An agent that dies is started again. A change of the file takes effect while the server runs.
    """

    remarks = ()
    pod_scheduler = None

    def __init__(self, home: Home, path: Path, containers: Containers | None = None) -> None:
        """`containers` are the rules for containers of jobs. Raises Refused for a bad file."""
        self.traits = EngineTraits("mock", containers=containers)
        self._file = ChangingMockFile(path)
        self._cluster = self._file.read()
        self._spawner = AgentSpawner(home, mock=path, config=home.config_file)
        self._nodes: dict[str, RemoteNode] = {}
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def log_path(self, node: str, job_id: str, rank: int) -> str | None:
        """Return the file of a member's log, even for a node that has left."""
        return str(self._spawner.home_of(node).log_of(job_id, rank))

    def start(self) -> dict[str, NodeAgent]:
        """Return the agents of all nodes. The agents of nodes that are not gone answer now.

        Raises BackendFailed if an agent does not start.
        """
        self._spawner.start(self._wanted())
        return {name: self._node(name) for name in _names(self._cluster)}

    def on_record(self) -> tuple[str, ...]:
        """Return (): the homes of the nodes are inside the server's home."""
        return ()

    def at_work(self) -> tuple[str, ...]:
        """Return (): the homes of the nodes are inside the server's home."""
        return ()

    def departed(self, node: str) -> NodeAgent | None:
        """Return None: the agent ends with its node."""
        return None

    def attend(self, jobs: PodJobs) -> None:
        """Do nothing: there are no pods here."""

    def watch(self, joined: Joined, left: Left) -> None:
        """Follow the file and keep the agents running, on a thread. Report added and removed nodes."""
        self._thread = threading.Thread(target=self._run, args=(joined, left), name="mock-nodes", daemon=True)
        self._thread.start()

    def pid(self, name: str) -> int:
        """Return the pid of a node's agent. Raises KeyError if none was started."""
        return self._spawner.pid(name)

    def close(self) -> None:
        """End the agents; their jobs run on."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        for node in self._nodes.values():
            node.close()
        self._spawner.close()

    def _run(self, joined: Joined, left: Left) -> None:
        while not self._closing.wait(LOOK_INTERVAL_S):
            self._look(joined, left)

    def _look(self, joined: Joined, left: Left) -> None:
        before, after = self._cluster, self._read()
        for name in _names(before):
            if name not in _names(after):
                self._remove(name, left)
        for name in self._wanted():
            if not self._spawner.lives(name):
                self._restart(name)
        for name in _names(after):
            if name not in _names(before):
                joined(name, self._node(name))

    def _read(self) -> MockCluster:
        """Return the cluster as the file describes it now. An invalid edit changes nothing."""
        try:
            cluster = self._file.read_if_changed()
            if cluster is not None and not cluster.named:
                raise Refused(f"{self._file.path} describes no nodes any more")
        except Refused as error:
            log.warning("%s; the nodes that it described before are kept", error)
        else:
            self._cluster = cluster or self._cluster
        return self._cluster

    def _wanted(self) -> list[str]:
        return [node.name for node in self._cluster.nodes if node.name is not None and not node.gone]

    def _restart(self, name: str) -> None:
        try:
            self._spawner.start([name])
        except CorralError as error:
            log.error("%s", error)

    def _remove(self, name: str, left: Left) -> None:
        left(name)
        node = self._nodes.pop(name)
        if self._spawner.lives(name):
            # The server never asks for these jobs again, so they are ended, as on a node that returns without being in
            # the ledger.
            with suppress(CorralError):
                node.launches.reconcile((), ())
        node.close()
        if self._spawner.lives(name):
            self._spawner.end(name)

    def _node(self, name: str) -> RemoteNode:
        if name not in self._nodes:
            self._nodes[name] = RemoteNode(AgentSocket(self._spawner.socket_of(name)))
        return self._nodes[name]


def _names(cluster: MockCluster) -> list[str]:
    return [node.name for node in cluster.nodes if node.name is not None]
