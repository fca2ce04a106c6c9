"""Functions for scripts: the GPUs of a cluster, and the node with the most idle GPUs.

They follow the cluster of the usual kubeconfig by watches, which the first call begins. They read a Prometheus if
`prometheus_url` or `CORRAL_PROMETHEUS_URL` names one. Pass `watched`, a `corral.kubernetes.WatchedGpus`, for another
cluster, or to be able to stop the watches.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.placing.placement_rules import IdleFirst
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources
from corral.features.services.idle_nodes import GpuStatus, NodeGpuSummary, gpu_statuses, summaries
from corral.features.services.manifests import ServiceShape
from corral.features.services.node_choice import best_nodes
from corral.features.services.selection import (
    MEMORY_THRESHOLD,
    USUAL,
    UTILIZATION_THRESHOLD,
    NodeSelection,
    selection_of,
)
from corral.features.services.service_rules import service_request
from corral.features.services.watched_gpus import ClusterSeen, WatchedGpus, reading_sources

_starting = threading.Lock()
_usual: dict[tuple[ReadingSources, bool], WatchedGpus] = {}
"""The watches of the usual cluster, by their sources of readings and whether they know the hosts of GPUs."""


_OF_WATCHES = ("count_hosts", "window_s", "prometheus_url", "exec_nvidia_smi")
_OF_READINGS = ("window_s", "prometheus_url", "exec_nvidia_smi")
"""The options of a selection that say where readings come from. Without a deployment the others mean nothing."""

_TAKES = {"affinity": "a deployment", **dict.fromkeys(_OF_WATCHES, "the WatchedGpus")}


def get_cluster_gpu_status(*, watched: WatchedGpus | None = None, **options: Any) -> list[GpuStatus]:
    """Every GPU of the cluster, by node and index.

    `options` say where readings come from: `prometheus_url`, `window_s` and `exec_nvidia_smi` of `NodeSelection`.
    """
    return _watches(watched, options).ask(_statuses)


def get_node_gpu_summaries(
    *,
    utilization_threshold: float = UTILIZATION_THRESHOLD,
    memory_threshold: float = MEMORY_THRESHOLD,
    watched: WatchedGpus | None = None,
    **options: Any,
) -> dict[str, NodeGpuSummary]:
    """The figures of each node with GPUs, by its name. Thresholds are in percent.

    `options` are those of `get_cluster_gpu_status`.
    """
    rule = IdleFirst(utilization_threshold, memory_threshold)
    found = _watches(watched, options).ask(lambda seen: summaries(seen.view, seen.view.draft(), rule))
    return {one.node_name: one for one in found}


def find_best_node_for_deployment(
    required_gpus: int = 1,
    utilization_threshold: float = UTILIZATION_THRESHOLD,
    memory_threshold: float = MEMORY_THRESHOLD,
    *,
    watched: WatchedGpus | None = None,
    **options: Any,
) -> str | None:
    """The name of the node with the most idle GPUs; None if none has enough, for Kubernetes to decide.

    The planner's ranking chooses it, over a view of the cluster. `options` are further ones of `NodeSelection`, such as
    `fallback="pin"` or `prefer_labels={"zone": "a"}`. Nothing is held: a deployment chooses, and holds, by itself.
    """
    if required_gpus < 1:
        raise Refused(f"{required_gpus} GPUs cannot be looked for; 1 or more can", field="required_gpus")
    thresholds = {"utilization_threshold": utilization_threshold, "memory_threshold": memory_threshold}
    selection = selection_of({**thresholds, **options})
    request = service_request(ServiceShape(required_gpus), {}, selection)
    _refuse(selection, ("affinity", *(_OF_WATCHES if watched is not None else ())))
    found = (watched or _of_usual_cluster(selection)).ask(
        lambda seen: best_nodes(seen, seen.view.draft(), request, selection.fallback)
    )
    return next(iter(found), None)


select_best_node = find_best_node_for_deployment


def _statuses(seen: ClusterSeen) -> list[GpuStatus]:
    seen.view.follow()
    return gpu_statuses(seen.view.seen.values())


def _watches(watched: WatchedGpus | None, options: Mapping[str, Any]) -> WatchedGpus:
    """Return the watches of a question about all nodes. Raises Refused for options that mean nothing there."""
    selection = selection_of(options)
    for name in options:
        if name not in _OF_READINGS:
            raise Refused(f"{name} has no meaning here; leave it out, or give it to a deployment", field=name)
    if watched is None:
        return _of_usual_cluster(selection)
    _refuse(selection, _OF_READINGS)
    return watched


def _refuse(selection: NodeSelection, names: Iterable[str]) -> None:
    for name in names:
        if getattr(selection, name) != getattr(USUAL, name):
            raise Refused(f"{name} has no meaning here; leave it out, or give it to {_TAKES[name]}", field=name)


def _of_usual_cluster(selection: NodeSelection) -> WatchedGpus:
    """Return the watches that know what a selection asks for: one for all calls of a script that ask for the same."""
    key = reading_sources(selection), selection.count_hosts
    with _starting:
        if key not in _usual:
            _usual[key] = WatchedGpus(Cluster.connect(), key[0], hosts=key[1])
        return _usual[key]
