"""Corral on Kubernetes: its nodes, jobs as pods, pods that others make, and model services by OME and KServe.

>>> from corral.kubernetes import OMEController, find_best_node_for_deployment
>>> find_best_node_for_deployment(required_gpus=2)                                    # doctest: +SKIP

Start reading at `cluster` (the API server, and caches of its objects), then at `services`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources as ReadingSources
    from corral.engines.kubernetes.services.controllers import KServeController as KServeController
    from corral.engines.kubernetes.services.controllers import OMEController as OMEController
    from corral.engines.kubernetes.services.gpu_discovery import (
        find_best_node_for_deployment as find_best_node_for_deployment,
    )
    from corral.engines.kubernetes.services.gpu_discovery import get_cluster_gpu_status as get_cluster_gpu_status
    from corral.engines.kubernetes.services.gpu_discovery import get_node_gpu_summaries as get_node_gpu_summaries
    from corral.engines.kubernetes.services.gpu_discovery import select_best_node as select_best_node

_WHERE = {
    "KServeController": "services.controllers",
    "OMEController": "services.controllers",
    "ReadingSources": "inventory.readings.cluster_readings",
    "find_best_node_for_deployment": "services.gpu_discovery",
    "get_cluster_gpu_status": "services.gpu_discovery",
    "get_node_gpu_summaries": "services.gpu_discovery",
    "select_best_node": "services.gpu_discovery",
}
__all__ = [
    "KServeController",
    "OMEController",
    "ReadingSources",
    "find_best_node_for_deployment",
    "get_cluster_gpu_status",
    "get_node_gpu_summaries",
    "select_best_node",
]


def __getattr__(name: str) -> Any:
    """Load the public face on first use: rooms below import this package, and need none of it."""
    from importlib import import_module

    if name in _WHERE:
        return getattr(import_module(f"corral.engines.kubernetes.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'corral.kubernetes' has no attribute {name!r}; its names are {', '.join(__all__)}")
