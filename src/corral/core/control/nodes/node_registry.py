"""The nodes that control acts on: each with its agent, and threads for calls to it."""

import threading
import time
from collections.abc import Callable, ItemsView, Iterator, Mapping

from corral.core.control.nodes.node_workers import NodeWorker
from corral.core.control.nodes.thread_pool import ThreadPool
from corral.core.model.errors import NodeUnreachable
from corral.core.ports.node import NodeAgent

_CLOSE_S = 5.0


class Nodes(Mapping[str, NodeAgent]):
    """Agents by the name of their node, in the order they came. Nodes may come and go; safe from any thread."""

    def __init__(
        self,
        agents: Mapping[str, NodeAgent] | None = None,
        max_threads: int | None = None,
        departed: Callable[[str], NodeAgent | None] = lambda name: None,
    ) -> None:
        """`max_threads` act on all nodes together, and as many ask them; None gives each node threads of its own.

        `departed` is who speaks for a node that is not part of the cluster any more, None where nobody can.
        """
        self.departed = departed
        # Replaced and never changed, so that whoever reads it sees one state of it.
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
        """All of them as they are now: one that leaves meanwhile is still there."""
        return self._agents.items()

    def agent(self, name: str) -> NodeAgent:
        """The agent of a node, or who speaks for one that has left. Raises NodeUnreachable where there is neither."""
        agent = self._agents.get(name) or self.departed(name)
        if agent is None:
            raise NodeUnreachable(f"node {name} is not part of this cluster")
        return agent

    def worker(self, name: str) -> NodeWorker:
        """What acts on a node."""
        worker = self._workers.get(name)
        if worker is None:
            with self._lock:
                worker = self._workers.setdefault(name, NodeWorker(name, *self._pools))
        return worker

    def add(self, name: str, agent: NodeAgent) -> None:
        """A node joins, or gets another agent."""
        with self._lock:
            self._agents = {**self._agents, name: agent}

    def remove(self, name: str) -> None:
        """A node leaves."""
        with self._lock:
            self._agents = {known: agent for known, agent in self._agents.items() if known != name}
            worker = self._workers.pop(name, None)
        if worker is not None:
            worker.stop()

    def close(self) -> None:
        """Begin nothing more anywhere, and wait a little for what is being done; a node that hangs is left behind."""
        with self._lock:
            workers = tuple(self._workers.values())
        deadline = time.monotonic() + _CLOSE_S
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(deadline - time.monotonic())
