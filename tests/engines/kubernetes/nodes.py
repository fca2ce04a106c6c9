"""Nodes of a real API server that no kubelet stands behind."""

from typing import Any

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NODES
from tests.engines.kubernetes.manifests import node


def make_node(
    cluster: Cluster,
    name: str,
    *,
    gpus: int = 8,
    labels: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
) -> None:
    """A node that is ready and has no taint. `status` is what else its status says."""
    wanted = node(name, gpus=gpus, labels=labels)
    wanted["status"] |= status or {}
    cluster.create(NODES, wanted)
    cluster.patch(NODES, name, {"status": wanted["status"]}, subresource="status")
    # Admission taints each new node as not ready.
    cluster.patch(NODES, name, {"spec": {"taints": None}})
