"""The GPUs of a cluster, kept up to date by watches, for callers that ask often."""

import threading
from typing import Self

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import MissingRight
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.inventory.cluster_gpus import (
    LIST_S,
    NO_READINGS,
    ClusterGpus,
    NodeGpus,
    gpu_containers,
    keep_gpu_node,
    keep_gpu_pod,
)
from corral.engines.kubernetes.inventory.readings.cluster_readings import (
    EXPORTERS_ALONE,
    ReadingsFound,
    ReadingSources,
    every_name,
    read_gpus,
)
from corral.features.services.hold_store import HoldStore
from corral.features.services.holds import held_gpus
from corral.features.services.service_pods import gpus_by_service

READINGS_EVERY_S = 15.0
"""The interval of readings. dcgm-exporter measures every 30 s by default."""


class WatchedGpus:
    """Watches of nodes and pods, and a thread that takes readings. The first `now` starts them."""

    def __init__(self, cluster: Cluster, sources: ReadingSources = EXPORTERS_ALONE) -> None:
        self._cluster = cluster
        self._sources = sources
        self._watches = ObjectWatch(cluster, NODES), ObjectWatch(cluster, PODS)
        self._nodes = self._watches[0].cache(keep_gpu_node)
        self._pods = self._watches[1].cache(keep_gpu_pod)
        self._holds = HoldStore(cluster)
        self._readings = NO_READINGS
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="gpu-readings", daemon=True)
        self._lock = threading.Lock()
        self._started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def now(self) -> ClusterGpus:
        """Return the current GPUs. The first call waits for the first listings and readings.

        Raises the failure of a watch instead of returning values that may be out of date.
        """
        with self._lock:
            if not self._started:
                self._start()
        for watch in self._watches:
            if watch.failure is not None:
                raise watch.failure
        return ClusterGpus(self._nodes.values(), self._pods.values(), self._readings)

    def nodes(self) -> list[NodeGpus]:
        """Return the nodes with GPUs now, with the GPUs held for services whose pods are not visible yet.

        Without the right to read holds, it counts none.
        """
        known = self.now()
        try:
            holds = self._holds.look().holds
        except MissingRight:
            return known.nodes()
        return known.nodes(held_gpus(holds, gpus_by_service(known.pods)))

    def stop(self) -> None:
        """End all threads."""
        self._stopping.set()
        if self._started:
            for watch in self._watches:
                watch.stop()
            if self._thread.is_alive():
                self._thread.join()

    def _start(self) -> None:
        for watch in self._watches:
            watch.start()
        self._started = True
        for watch in self._watches:
            watch.wait_until_synced(LIST_S)
        self._readings = self._read()
        self._thread.start()

    def _measure(self) -> None:
        while not self._stopping.wait(READINGS_EVERY_S):
            self._readings = self._read()

    def _read(self) -> ReadingsFound:
        containers = gpu_containers(self._pods.values()) if self._sources.exec_nvidia_smi else ()
        return read_gpus(self._cluster, every_name(self._nodes.values()), self._sources, containers)
