"""The registry of nodes: the agent of each, and the threads for calls to it."""

import threading
import time
from collections.abc import Callable, ItemsView, Iterator, Mapping

from corral.core.control.nodes.node_workers import NodeWorker
from corral.core.control.nodes.thread_pool import ThreadPool
from corral.core.model.errors import NodeUnreachable
from corral.core.ports.node import NodeAgent

_CLOSE_S = 5.0


class Nodes(Mapping[str, NodeAgent]):
    """Agents by the name of their node, in the order in which they joined. Nodes may join and leave. Thread-safe."""

    def __init__(
        self,
        agents: Mapping[str, NodeAgent] | None = None,
        max_threads: int | None = None,
        departed: Callable[[str], NodeAgent | None] = lambda name: None,
    ) -> None:
        """`max_threads` threads act on all nodes together, and as many ask them. None gives each node its own threads.

        `departed` returns the agent that answers for a node that has left the cluster, None if there is none.
        """
        self.departed = departed
        # This mapping is replaced and never changed, so each reader sees one consistent state.
        self._agents: Mapping[str, NodeAgent] = dict(agents or {})
        self._lock = threading.Lock()
        self._workers: dict[str, NodeWorker] = {}
        self._pools: tuple[ThreadPool, ...] = ()
        if max_threads is not None:
            self._pools = tuple(ThreadPool(name, max_threads) for name in ("nodes", "ask-nodes"))

    def __getitem__(self, name: str) -> NodeAgent:
        return self._agents[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)

    def items(self) -> ItemsView[str, NodeAgent]:
        """Return the current agents; a node that leaves during the iteration is still in them."""
        return self._agents.items()

    def agent(self, name: str) -> NodeAgent:
        """Return the agent of a node, or the one that answers for a node that has left. Raises NodeUnreachable if
        there is none.
        """
        agent = self._agents.get(name) or self.departed(name)
        if agent is None:
            raise NodeUnreachable(f"node {name} is not part of this cluster")
        return agent

    def worker(self, name: str) -> NodeWorker:
        """Return the worker of a node; it is created when it is first needed."""
        worker = self._workers.get(name)
        if worker is None:
            with self._lock:
                worker = self._workers.setdefault(name, NodeWorker(name, *self._pools))
        return worker

    def add(self, name: str, agent: NodeAgent) -> None:
        """Add a node, or replace its agent."""
        with self._lock:
            self._agents = {**self._agents, name: agent}

    def remove(self, name: str) -> None:
        """Remove a node."""
        with self._lock:
            self._agents = {known: agent for known, agent in self._agents.items() if known != name}
            worker = self._workers.pop(name, None)
        if worker is not None:
            worker.stop()

    def close(self) -> None:
        """Stop all workers, and wait up to 5 s for their current tasks; a hanging node is abandoned."""
        with self._lock:
            workers = tuple(self._workers.values())
        deadline = time.monotonic() + _CLOSE_S
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(deadline - time.monotonic())
