"""The identity of a cluster, however its API server is reached."""

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import MissingRight, NoSuchObject
from corral.engines.kubernetes.cluster.objects import mapping
from corral.engines.kubernetes.cluster.resource import NAMESPACES


def cluster_uid(cluster: Cluster) -> str | None:
    """Return the UID of the namespace that every cluster has once; None if it may not be read."""
    try:
        found = cluster.get(NAMESPACES, "kube-system")
    except (MissingRight, NoSuchObject):
        return None
    return str(mapping(found.get("metadata")).get("uid") or "") or None
