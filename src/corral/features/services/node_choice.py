"""Chooses the node for a service and holds its GPUs, so that two deployments at once do not take the same ones."""

import random
import time
from dataclasses import dataclass, replace

from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.job import Request
from corral.core.model.placing.placement_rules import IdleFirst, PlacementRules
from corral.core.scheduling.placing.idle_first import place_on_idle
from corral.core.scheduling.state.draft import Draft, PlacementRequest
from corral.engines.kubernetes.cluster.errors import MissingRight, ObjectChanged
from corral.engines.kubernetes.cluster.resource import OWN_NAMESPACE
from corral.features.services.hold_store import HoldsRead, HoldStore
from corral.features.services.holds import HOLD_S, Hold, held_gpus
from corral.features.services.idle_nodes import NodeGpuSummary, calmest, summaries
from corral.features.services.manifests import NodeWish
from corral.features.services.selection import Fallback
from corral.features.services.watched_gpus import ClusterSeen

_jitter = random.Random()
"""A generator of its own: choices run on threads, and other code, such as tests, may seed the one of the process."""

TRIES = 20
"""The number of attempts while other deployments are faster. After that something else is wrong."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """The chosen node, or why none was chosen.

    Attributes:
        summary: the figures of the node; of several, those of the first pod's.
        hostnames: the hostname label of the node of each pod, used in the affinity.
        remarks: limits of the choice, in sentences.
        beside: the names of the nodes of the other pods.
    """

    summary: NodeGpuSummary | None
    hostnames: tuple[str, ...] = ()
    why_none: str = ""
    remarks: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def wish(self, *, required: bool) -> NodeWish | None:
        """Return the node for the manifest, or None."""
        if self.summary is None:
            return None
        first, *beside = self.hostnames
        return NodeWish(self.summary.node_name, first, required, tuple(beside))


@dataclass(frozen=True, slots=True)
class NodeWanted:
    """The requirements of a service on its nodes.

    Attributes:
        service: its key among the holds.
        request: what its pods ask for.
        ready_nodes: the nodes that have its model, to say why others are none; None if any node will do.
    """

    service: str
    request: Request
    ready_nodes: frozenset[str] | None = None
    fallback: Fallback = Fallback.KUBERNETES


def choose_node(seen: ClusterSeen, store: HoldStore, wanted: NodeWanted, *, hold: bool) -> NodeChoice:
    """The best node now, and with `hold` its GPUs are held until the service's pods are seen."""
    for _ in range(TRIES):
        try:
            read = store.read() if hold else store.look()
            choice = _choose(seen, read, wanted)
            if hold and choice.summary is not None:
                gpus = wanted.request.devices
                node = choice.summary.node_name
                store.add(read, Hold(wanted.service, node, gpus, read.now + HOLD_S, choice.beside))
        except MissingRight as error:
            return _unheld(_choose(seen, HoldsRead(), wanted), error)
        except ObjectChanged:
            time.sleep(_jitter.uniform(0.01, 0.1))
        else:
            return choice
    raise BackendFailed(f"the holds in namespace {OWN_NAMESPACE} were changed by others {TRIES} times; try again")


def best_nodes(seen: ClusterSeen, draft: Draft, request: Request, fallback: Fallback) -> tuple[str, ...]:
    """The node on which the planner would put each pod of this request; () for Kubernetes to decide."""
    found = place_on_idle(draft, PlacementRequest(request))
    if found is not None:
        return tuple(member.node for member in found.members)
    if fallback is Fallback.KUBERNETES or request.gang_size > 1:
        return ()
    pinned = calmest(_summaries(seen, draft, request), request.devices)
    return () if pinned is None else (pinned.node_name,)


def _unheld(choice: NodeChoice, error: MissingRight) -> NodeChoice:
    remark = f"the GPUs are not held, so another deployment at this moment may choose the same ones: {error}"
    return replace(choice, remarks=(*choice.remarks, remark))


def _choose(seen: ClusterSeen, read: HoldsRead, wanted: NodeWanted) -> NodeChoice:
    seen.view.hold(held_gpus(read.holds, seen.gpus_by_service(), without=wanted.service))
    draft = seen.view.draft()
    names = best_nodes(seen, draft, wanted.request, wanted.fallback)
    found = {one.node_name: one for one in _summaries(seen, draft, wanted.request, wanted.ready_nodes)}
    if not names:
        return NodeChoice(None, (), _why_none(list(found.values()), wanted), seen.remarks)
    hostnames = tuple(seen.view.seen[name].facts.hostname for name in names)
    return NodeChoice(found[names[0]], hostnames, "", seen.remarks, names[1:])


def _summaries(
    seen: ClusterSeen, draft: Draft, request: Request, ready_nodes: frozenset[str] | None = None
) -> list[NodeGpuSummary]:
    rules = request.rules or PlacementRules()
    return summaries(seen.view, draft, rules.idle_first or IdleFirst(), rules, ready_nodes)


def _why_none(found: list[NodeGpuSummary], wanted: NodeWanted) -> str:
    if not found:
        return "the cluster has no node with GPUs"
    usable = [one for one in found if one.unusable is None]
    if not usable:
        first = found[0]
        return f"none of {len(found)} nodes with GPUs can be used; {first.node_name}: {first.unusable}"
    best = max(usable, key=lambda one: (one.idle_gpu_count, one.allocatable_gpus))
    pods = wanted.request.gang_size
    each = f" for each of {pods} pods" if pods > 1 else ""
    return (
        f"it needs {wanted.request.devices} idle GPU(s) on one node{each}; the best of {len(usable)}, {best.node_name},"
        f" has {best.idle_gpu_count} idle of {best.allocatable_gpus} allocatable"
    )
