"""Functions for scripts: the GPUs of a cluster, and the node with the most idle GPUs.

They follow the cluster of the usual kubeconfig by watches, which the first call begins. They read a Prometheus if
`CORRAL_PROMETHEUS_URL` names one. Pass `watched` for another cluster, or to be able to stop the watches.
"""

import os
import threading

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources
from corral.features.services.idle_nodes import (
    MEMORY_THRESHOLD,
    UTILIZATION_THRESHOLD,
    Fallback,
    GpuStatus,
    NodeGpuSummary,
    best_node,
    gpu_statuses,
    summary_of,
)
from corral.features.services.watched_gpus import WatchedGpus

_starting = threading.Lock()
_usual: WatchedGpus | None = None


def get_cluster_gpu_status(*, watched: WatchedGpus | None = None) -> list[GpuStatus]:
    """Every GPU of the cluster, by node and index."""
    return gpu_statuses((watched or _of_usual_cluster()).nodes())


def get_node_gpu_summaries(
    *,
    utilization_threshold: float = UTILIZATION_THRESHOLD,
    memory_threshold: float = MEMORY_THRESHOLD,
    watched: WatchedGpus | None = None,
) -> dict[str, NodeGpuSummary]:
    """The figures of each node with GPUs, by its name. Thresholds are in percent."""
    nodes = (watched or _of_usual_cluster()).nodes()
    summaries = (summary_of(node, utilization_threshold, memory_threshold) for node in nodes)
    return {one.node_name: one for one in sorted(summaries, key=lambda one: one.node_name)}


def find_best_node_for_deployment(
    required_gpus: int = 1,
    utilization_threshold: float = UTILIZATION_THRESHOLD,
    memory_threshold: float = MEMORY_THRESHOLD,
    *,
    fallback: Fallback = "kubernetes",
    watched: WatchedGpus | None = None,
) -> str | None:
    """The name of the node with the most idle GPUs; None if none has enough, for Kubernetes to decide.

    Nothing is held by it: a deployment chooses, and holds, by itself.
    """
    summaries = get_node_gpu_summaries(
        utilization_threshold=utilization_threshold, memory_threshold=memory_threshold, watched=watched
    )
    chosen = best_node(summaries.values(), required_gpus, fallback)
    return None if chosen is None else chosen.node_name


select_best_node = find_best_node_for_deployment


def _of_usual_cluster() -> WatchedGpus:
    global _usual  # noqa: PLW0603 -- one watch for all calls of a script
    with _starting:
        if _usual is None:
            _usual = WatchedGpus(Cluster.connect(), ReadingSources(os.environ.get("CORRAL_PROMETHEUS_URL")))
        return _usual
