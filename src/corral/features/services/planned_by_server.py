"""Services whose pods are bound by a server of Corral: its planner chooses their nodes, and they are a job there."""

from corral.client import Client
from corral.engines.kubernetes.binding.pod_ask import (
    GANG,
    GANG_SIZE,
    IDLE_FIRST,
    NAME,
    PROJECT,
    QUEUE,
    WHOLE_NODES_LAST,
)
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.cluster_uid import cluster_uid
from corral.features.services.manifests import PodPlacing, ServiceShape
from corral.features.services.selection import USUAL, NodeSelection
from corral.features.services.service_rules import preferences_of
from corral.features.services.service_wanted import ServiceWanted


def pod_scheduler(client: Client | None, cluster: Cluster) -> str | None:
    """Return the name of the scheduler by which the client's server binds pods of this cluster; None if it binds none.

    Raises as the client does.
    """
    if client is None:
        return None
    info = client.server()
    if info.pod_scheduler is None or info.cluster_uid is None or cluster_uid(cluster) != info.cluster_uid:
        return None
    return info.pod_scheduler


def without_meaning(selection: NodeSelection) -> tuple[str, ...]:
    """Return a remark about the options that a server's planner does not follow; () if there are none."""
    options = ("affinity", "fallback", "count_hosts", "window_s")
    unused = [name for name in options if getattr(selection, name) != getattr(USUAL, name)]
    if not unused:
        return ()
    return (
        f"{', '.join(unused)}: the planner of Corral's server binds pods to their nodes, and decides that by itself",
    )


def placed_by_planner(
    wanted: ServiceWanted, selection: NodeSelection, scheduler: str, shape: ServiceShape
) -> PodPlacing:
    """Return what the pods of a service say so that they become one job of the server, ranked as its selection says."""
    ranking = f"{selection.utilization_threshold:g},{selection.memory_threshold:g}"
    if selection.whole_nodes_last:
        ranking += f",{WHOLE_NODES_LAST}"
    noted = {NAME: wanted.name, IDLE_FIRST: ranking, QUEUE: wanted.queue, PROJECT: wanted.project}
    if shape.pods > 1:
        noted |= {GANG: wanted.name, GANG_SIZE: str(shape.pods)}
    return PodPlacing(
        None, preferences_of(selection), scheduler, {name: text for name, text in noted.items() if text is not None}
    )
