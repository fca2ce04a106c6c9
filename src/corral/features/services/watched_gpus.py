"""The GPUs of a cluster as the planner sees them: listed once, or kept up to date by watches for who asks often."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import MissingRight
from corral.engines.kubernetes.cluster.node_facts import NodeFacts, read_node
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.inventory.cluster_gpus import LIST_S
from corral.engines.kubernetes.inventory.occupants import Occupant
from corral.engines.kubernetes.inventory.readings.cluster_readings import (
    EXPORTERS_ALONE,
    ReadingsFound,
    ReadingSources,
    every_name,
    read_gpus,
)
from corral.features.services.cluster_view import ClusterView
from corral.features.services.hold_store import HoldStore
from corral.features.services.holds import held_gpus
from corral.features.services.selection import NodeSelection
from corral.features.services.service_pods import gpus_by_service

Answer = TypeVar("Answer")

READINGS_EVERY_S = 15.0
"""The interval of readings. dcgm-exporter measures every 30 s by default."""

READINGS_LAST_S = 3 * READINGS_EVERY_S
"""Readings expire after this time without newer ones."""


PROMETHEUS_VARIABLE = "CORRAL_PROMETHEUS_URL"
"""Names a Prometheus for every choice of a node that names none itself."""


def reading_sources(selection: NodeSelection, environ: Mapping[str, str] = os.environ) -> ReadingSources:
    """Return the sources of readings beside dcgm-exporter that a selection means, in an environment."""
    url = selection.prometheus_url or environ.get(PROMETHEUS_VARIABLE) or None
    return ReadingSources(url, selection.exec_nvidia_smi, round(selection.window_s))


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """A cluster at one moment: the planner's view of it, its pods, and why some nodes have no readings."""

    view: ClusterView
    pods: Callable[[], Iterable[Occupant]]
    remarks: tuple[str, ...] = ()

    def gpus_by_service(self) -> Counter[str]:
        """Return the number of GPUs that the pods of each model service have."""
        return gpus_by_service(self.pods())


def list_cluster(cluster: Cluster, sources: ReadingSources = EXPORTERS_ALONE, *, hosts: bool = False) -> ClusterSeen:
    """List all nodes and pods and read their GPUs now. Raises MissingRight if nodes or pods may not be listed.

    With `hosts` the CPUs, the memory and the number of pods of each node count, too.
    """
    view = ClusterView(hosts=hosts)
    nodes: list[NodeFacts] = cluster.read_all(NODES, read_node, timeout_s=LIST_S)
    pods: list[Occupant] = cluster.read_all(PODS, view.keep, timeout_s=LIST_S)
    view.book.nodes_changed([Change(None, one) for one in nodes])
    view.book.occupants_changed([Change(None, one) for one in pods])
    found = _read(cluster, view, sources)
    return ClusterSeen(view, lambda: pods, found.remarks)


class WatchedGpus:
    """Watches of nodes and pods, and a thread that takes readings. The first question starts them."""

    def __init__(self, cluster: Cluster, sources: ReadingSources = EXPORTERS_ALONE, *, hosts: bool = False) -> None:
        self._cluster = cluster
        self._sources = sources
        self._view = ClusterView(hosts=hosts)
        self._watches = ObjectWatch(cluster, NODES), ObjectWatch(cluster, PODS)
        self._watches[0].cache(read_node).subscribe(self._view.book.nodes_changed)
        self._pods = self._watches[1].cache(self._view.keep)
        self._pods.subscribe(self._view.book.occupants_changed)
        self._holds = HoldStore(cluster)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="gpu-readings", daemon=True)
        self._lock = threading.Lock()
        self._started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ask(self, question: Callable[[ClusterSeen], Answer]) -> Answer:
        """Return what a question finds in the cluster as it is now, with the GPUs held for services.

        The first one waits for the first listings and readings. Without the right to read holds, none count. Raises the
        failure of a watch rather than answer from what may be out of date.
        """
        with self._lock:
            if not self._started:
                self._start()
            for watch in self._watches:
                if watch.failure is not None:
                    raise watch.failure
            seen = ClusterSeen(self._view, self._pods.values)
            self._view.hold(self._held(seen))
            return question(seen)

    def stop(self) -> None:
        """End all threads."""
        self._stopping.set()
        if self._started:
            for watch in self._watches:
                watch.stop()
            if self._thread.is_alive():
                self._thread.join()

    def _held(self, seen: ClusterSeen) -> Counter[str]:
        try:
            holds = self._holds.look().holds
        except MissingRight:
            holds = ()
        return held_gpus(holds, seen.gpus_by_service()) if holds else Counter()

    def _start(self) -> None:
        for watch in self._watches:
            watch.start()
        self._started = True
        for watch in self._watches:
            watch.wait_until_synced(LIST_S)
        _read(self._cluster, self._view, self._sources)
        self._thread.start()

    def _measure(self) -> None:
        while not self._stopping.wait(READINGS_EVERY_S):
            _read(self._cluster, self._view, self._sources)
            with self._lock:
                # New readings of all nodes at once would delay the next question.
                self._view.follow()


def _read(cluster: Cluster, view: ClusterView, sources: ReadingSources) -> ReadingsFound:
    """Take readings into a view."""
    containers = view.book.gpu_containers() if sources.exec_nvidia_smi else ()
    now = time.time()
    found = read_gpus(cluster, every_name(view.book.gpu_nodes()), sources, containers)
    view.read(found, now, now - READINGS_LAST_S)
    return found
