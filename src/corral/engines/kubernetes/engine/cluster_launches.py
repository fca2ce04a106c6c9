"""The runtime of each launch in a cluster, and the launches on each node."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from corral.core.model.runs.launch import Launch, job_of
from corral.engines.kubernetes.engine.runtimes import ClusterRuntime

FRESH_S = 2.0
"""The time for which a list of all records is reused: at a start, thousands of nodes are reconciled one after
another.
"""


class ClusterLaunches:
    """The launches of one cluster. Safe from any thread.

    `ended_in` names the runtime of a job that has ended, if it is known.
    """

    def __init__(
        self, runtimes: Mapping[str, ClusterRuntime], ended_in: Callable[[str], str | None] = lambda job_id: None
    ) -> None:
        self._runtimes = runtimes
        self._ended_in = ended_in
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._of_jobs: dict[str, str] = {}
        self._added: dict[str, dict[str, str]] = defaultdict(dict)
        """This server's launches by node and launch id, each with the name of its runtime. They may be newer than the
        last list.
        """
        self._by_node: dict[str, dict[str, str]] = {}
        self._listed_s = -FRESH_S

    def add(self, launch: Launch) -> None:
        """Add a launch that exists or is about to be made."""
        with self._lock:
            self._names[launch.id] = launch.runtime
            self._of_jobs[launch.job.id] = launch.runtime
            self._added[launch.node][launch.id] = launch.runtime

    def drop(self, node: str, launch_id: str) -> None:
        """Remove a launch that is forgotten, and that was on this node."""
        with self._lock:
            self._names.pop(launch_id, None)
            self._of_jobs.pop(job_of(launch_id), None)
            added = self._added.get(node, {})
            added.pop(launch_id, None)
            if not added:
                self._added.pop(node, None)

    def runtime_of(self, launch_id: str) -> str | None:
        """Return the name of a launch's runtime, None if it is unknown."""
        with self._lock:
            return self._names.get(launch_id) or self._of_jobs.get(job_of(launch_id))

    def runtime_of_job(self, job_id: str) -> str | None:
        """Return the name of the runtime of a job's launches, None if it is unknown."""
        with self._lock:
            known = self._of_jobs.get(job_id)
        return known or self._ended_in(job_id)

    def on(self, node: str) -> tuple[tuple[ClusterRuntime, str], ...]:
        """Return the launches on a node: those of this server, and those on record at most `FRESH_S` ago.

        Some may be gone by now: the runtime's report says so.
        """
        with self._lock:
            if time.monotonic() - self._listed_s >= FRESH_S:
                self._by_node = self._list()
                self._listed_s = time.monotonic()
            found = {**self._by_node.get(node, {}), **self._added.get(node, {})}
        return tuple((self._runtimes[name], launch_id) for launch_id, name in found.items())

    def _list(self) -> dict[str, dict[str, str]]:
        by_node: dict[str, dict[str, str]] = defaultdict(dict)
        for name, runtime in self._runtimes.items():
            for one in runtime.on_record():
                by_node[one.node][one.launch_id] = name
        return by_node
