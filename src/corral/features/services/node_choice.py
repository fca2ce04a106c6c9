"""Chooses the node for a service and holds its GPUs, so that two deployments at once do not take the same ones."""

import random
import time
from dataclasses import dataclass, replace

from corral.core.model.errors import BackendFailed
from corral.engines.kubernetes.cluster.errors import MissingRight, ObjectChanged
from corral.engines.kubernetes.cluster.resource import OWN_NAMESPACE
from corral.engines.kubernetes.inventory.cluster_gpus import ClusterGpus
from corral.engines.kubernetes.inventory.pod_rules import Rules
from corral.features.services.hold_store import HoldsRead, HoldStore
from corral.features.services.holds import HOLD_S, Hold, held_gpus
from corral.features.services.idle_nodes import Fallback, NodeGpuSummary, best_node, summary_of
from corral.features.services.manifests import NodeWish
from corral.features.services.service_pods import gpus_by_service

_jitter = random.Random()
"""A generator of its own: choices run on threads, and other code, such as tests, may seed the one of the process."""

TRIES = 20
"""The number of attempts while other deployments are faster. After that something else is wrong."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """The chosen node, or why none was chosen.

    Attributes:
        hostname: the node's hostname label, used in the affinity.
        remarks: limits of the choice, in sentences.
    """

    summary: NodeGpuSummary | None
    hostname: str | None = None
    why_none: str = ""
    remarks: tuple[str, ...] = ()

    def wish(self, *, required: bool) -> NodeWish | None:
        """Return the node for the manifest, or None."""
        if self.summary is None or self.hostname is None:
            return None
        return NodeWish(self.summary.node_name, self.hostname, required)


@dataclass(frozen=True, slots=True)
class NodeWanted:
    """The requirements of a service on its node.

    Attributes:
        service: its name among the holds.
        ready_nodes: the nodes that have its model; None if any node will do.
        rules: the rules of its runtime's pods.
    """

    service: str
    gpus: int
    ready_nodes: frozenset[str] | None
    rules: Rules
    fallback: Fallback = "kubernetes"


def choose_node(gpus: ClusterGpus, store: HoldStore, wanted: NodeWanted, *, hold: bool) -> NodeChoice:
    """The best node now, and with `hold` its GPUs are held until the service's pods are seen."""
    for _ in range(TRIES):
        try:
            read = store.read() if hold else store.look()
            choice = _choose(gpus, read, wanted)
            if hold and choice.summary is not None:
                store.add(read, Hold(wanted.service, choice.summary.node_name, wanted.gpus, read.now + HOLD_S))
        except MissingRight as error:
            return _unheld(_choose(gpus, HoldsRead(), wanted), error)
        except ObjectChanged:
            time.sleep(_jitter.uniform(0.01, 0.1))
        else:
            return choice
    raise BackendFailed(f"the holds in namespace {OWN_NAMESPACE} were changed by others {TRIES} times; try again")


def _unheld(choice: NodeChoice, error: MissingRight) -> NodeChoice:
    remark = f"the GPUs are not held, so another deployment at this moment may choose the same ones: {error}"
    return replace(choice, remarks=(*choice.remarks, remark))


def _choose(gpus: ClusterGpus, read: HoldsRead, wanted: NodeWanted) -> NodeChoice:
    seen = gpus_by_service(gpus.pods)
    nodes = gpus.nodes(held_gpus(read.holds, seen, without=wanted.service), wanted.rules, wanted.ready_nodes)
    summaries = [summary_of(node) for node in nodes]
    best = best_node(summaries, wanted.gpus, wanted.fallback)
    if best is None:
        return NodeChoice(None, None, _why_none(summaries, wanted), gpus.readings.remarks)
    hostname = next(node.hostname for node in nodes if node.node_name == best.node_name)
    return NodeChoice(best, hostname, "", gpus.readings.remarks)


def _why_none(summaries: list[NodeGpuSummary], wanted: NodeWanted) -> str:
    if not summaries:
        return "the cluster has no node with GPUs"
    usable = [one for one in summaries if one.unusable is None]
    if not usable:
        first = min(summaries, key=lambda one: one.node_name)
        return f"none of {len(summaries)} nodes with GPUs can be used; {first.node_name}: {first.unusable}"
    best = max(usable, key=lambda one: (one.idle_gpu_count, one.allocatable_gpus))
    return (
        f"it needs {wanted.gpus} idle GPU(s) on one node; the best of {len(usable)}, {best.node_name}, has"
        f" {best.idle_gpu_count} idle of {best.allocatable_gpus} allocatable"
    )
