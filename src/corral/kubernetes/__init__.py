"""The public names of Corral on Kubernetes: model services by OME and KServe, and the GPUs of a cluster.

>>> from corral.kubernetes import OMEController, find_best_node_for_deployment
>>> find_best_node_for_deployment(required_gpus=2)                                    # doctest: +SKIP

The code is in `corral.features.services` and `corral.engines.kubernetes`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corral.engines.kubernetes.cluster.client import Cluster as Cluster
    from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources as ReadingSources
    from corral.features.services.controllers import KServeController as KServeController
    from corral.features.services.controllers import OMEController as OMEController
    from corral.features.services.gpu_discovery import (
        find_best_node_for_deployment as find_best_node_for_deployment,
    )
    from corral.features.services.gpu_discovery import get_cluster_gpu_status as get_cluster_gpu_status
    from corral.features.services.gpu_discovery import get_node_gpu_summaries as get_node_gpu_summaries
    from corral.features.services.gpu_discovery import select_best_node as select_best_node
    from corral.features.services.watched_gpus import WatchedGpus as WatchedGpus

_WHERE = {
    "Cluster": "engines.kubernetes.cluster.client",
    "KServeController": "features.services.controllers",
    "OMEController": "features.services.controllers",
    "ReadingSources": "engines.kubernetes.inventory.readings.cluster_readings",
    "WatchedGpus": "features.services.watched_gpus",
    "find_best_node_for_deployment": "features.services.gpu_discovery",
    "get_cluster_gpu_status": "features.services.gpu_discovery",
    "get_node_gpu_summaries": "features.services.gpu_discovery",
    "select_best_node": "features.services.gpu_discovery",
}
__all__ = [
    "Cluster",
    "KServeController",
    "OMEController",
    "ReadingSources",
    "WatchedGpus",
    "find_best_node_for_deployment",
    "get_cluster_gpu_status",
    "get_node_gpu_summaries",
    "select_best_node",
]


def __getattr__(name: str) -> Any:
    """Load the module of a name on first use."""
    from importlib import import_module

    if name in _WHERE:
        return getattr(import_module(f"corral.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'corral.kubernetes' has no attribute {name!r}; its names are {', '.join(__all__)}")
