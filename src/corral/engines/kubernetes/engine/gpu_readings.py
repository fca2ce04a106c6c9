"""Reads the GPUs of a cluster at a bounded rate."""

import logging
from collections.abc import Collection
from statistics import fmean
from typing import NamedTuple

from corral.clock import Clock
from corral.core.model.units import count_of
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.engine.node_book import NodeBook
from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources, every_name, read_gpus

log = logging.getLogger(__name__)

LEAST_INTERVAL_S = 10.0
"""The shortest interval, whatever the settings say: dcgm-exporter measures every 30 s by itself."""

LAST_INTERVALS = 3
"""Readings expire after this many intervals without newer ones."""

_MOST_ROUNDS = 32
_NAMED = 5


class _Failing(NamedTuple):
    """An exporter that did not answer: the number of failures in a row, and the round in which it is asked again."""

    times: int
    again: int


class GpuReadings:
    """Takes readings at each interval and stores them in the book.

    An exporter that does not answer is asked less and less often, so that many hanging exporters do not delay the
    others.
    """

    def __init__(
        self, cluster: Cluster, book: NodeBook, sources: ReadingSources, clock: Clock, interval_s: float
    ) -> None:
        self._cluster = cluster
        self._book = book
        self._sources = sources
        self._clock = clock
        self.interval_s = interval_s
        self._round = 0
        self._failing: dict[str, _Failing] = {}
        self._said: dict[str, frozenset[str]] = {}

    def look(self) -> None:
        """Run one round: read the GPUs of all nodes."""
        self._round += 1
        taken_at, exporters = self._clock.now(), self._book.exporters()
        for node in self._failing.keys() - exporters.keys():
            del self._failing[node]
        due = {node: pod for node, pod in exporters.items() if self._is_due(node)}
        found = read_gpus(
            self._cluster,
            every_name(self._book.gpu_nodes()),
            self._sources,
            self._book.gpu_containers() if self._sources.exec_nvidia_smi else (),
            exporters=due,
            together_s=self.interval_s,
        )
        for node in due:
            self._note(node, failed=node in found.failed)
        self._say_unattributed()
        self._book.readings_taken(found.by_node, taken_at, taken_at - LAST_INTERVALS * self.interval_s)
        self._say("remarks", found.remarks, "; ".join(found.remarks))
        self._say("failing", self._failing, f"dcgm-exporter does not answer on {_named(self._failing)}")

    def _is_due(self, node: str) -> bool:
        return node not in self._failing or self._round >= self._failing[node].again

    def _note(self, node: str, *, failed: bool) -> None:
        if not failed:
            self._failing.pop(node, None)
            return
        times = self._failing[node].times + 1 if node in self._failing else 1
        self._failing[node] = _Failing(times, self._round + min(2**times, _MOST_ROUNDS))

    def _say_unattributed(self) -> None:
        """Log the nodes whose readings do not name the pod of each GPU, as of the last round that the feed has
        reported.
        """
        found = self._book.unattributed()
        used = [gpu.utilization_pct for gpus in found.values() for gpu in gpus if gpu.utilization_pct is not None]
        mean = f"; they are used to {fmean(used):.0f} % on average" if used else ""
        self._say("unattributed", found, f"readings do not tell which pod has which GPU on {_named(found)}{mean}")

    def _say(self, topic: str, subjects: Collection[str], words: str) -> None:
        """Log `words` if some of these subjects were not in the last message on the topic."""
        now = frozenset(subjects)
        if now - self._said.get(topic, frozenset()):
            log.warning("GPUs have no readings: %s", words)
        self._said[topic] = now


def _named(nodes: Collection[str]) -> str:
    first = ", ".join(sorted(nodes)[:_NAMED])
    return f"{count_of(len(nodes), 'node')}: {first}" + (", ..." if len(nodes) > _NAMED else "")
