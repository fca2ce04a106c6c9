"""Collects notices about launches while a node's thread is busy."""

import threading
from collections.abc import Callable, Iterable
from functools import partial

from corral.core.control.nodes.node_registry import Nodes


class LaunchNews:
    """The launches with unread reports, by node: the reports of one node are read together."""

    def __init__(self, nodes: Nodes, read: Callable[[str, tuple[str, ...]], None]) -> None:
        self._nodes = nodes
        self._read = read
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[str, None]] = {}

    def add(self, node: str, launch_ids: Iterable[str]) -> None:
        """Have the reports of these launches read soon."""
        with self._lock:
            waiting = self._waiting.get(node)
            if waiting is not None:
                waiting.update(dict.fromkeys(launch_ids))
                return
            self._waiting[node] = dict.fromkeys(launch_ids)
        if not self._nodes.worker(node).put(partial(self._take, node)):
            with self._lock:
                del self._waiting[node]

    def _take(self, node: str) -> None:
        with self._lock:
            launch_ids = tuple(self._waiting.pop(node, ()))
        self._read(node, launch_ids)
