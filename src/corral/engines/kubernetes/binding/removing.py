"""Deletes a pod of others, but never a pod that another scheduler has bound."""

from corral.clock import uptime_s
from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.binding.bound_mark import BoundMarks
from corral.engines.kubernetes.binding.pods_of_others import read
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import ClusterUnreachable, NoSuchObject
from corral.engines.kubernetes.cluster.resource import PODS


def remove_unless_taken(cluster: Cluster, ref: PodRef, marks: BoundMarks, timeout_s: float) -> None:
    """Delete the pod if it still exists, and if this server bound it or it is unbound.

    An unbound pod is deleted only in the version that was read, so that a concurrent binding wins. Raises ObjectChanged
    if the pod has just changed: the caller must look again.

    Both requests together take at most `timeout_s`, suspended time of the machine included.
    """
    until_s = uptime_s() + timeout_s
    try:
        item = cluster.get(PODS, ref.name, ref.namespace, timeout_s=timeout_s)
    except NoSuchObject:
        return
    pod = read(item)
    if pod.ref != ref or pod.facts.deleting_at_s is not None:
        return
    bound = pod.facts.node is not None
    if bound and marks.launch_of(pod) is None:
        return
    version = None if bound else str(item["metadata"].get("resourceVersion") or "")
    left_s = until_s - uptime_s()
    if left_s <= 0:
        raise ClusterUnreachable(f"pod {ref} is not deleted: reading it took the {timeout_s:.1f} s allowed")
    cluster.delete(PODS, ref.name, ref.namespace, uid=ref.uid, version=version, timeout_s=left_s)
