"""Which nodes of a cluster have idle GPUs, in figures, as the planner's ranking by idle devices counts them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from corral.core.model.placing.placement_rules import IdleFirst, PlacementRules, allows, untolerated
from corral.core.scheduling.explaining.phrases import selectors_called
from corral.core.scheduling.placing.idle_first import idle_on
from corral.core.scheduling.state.draft import Draft
from corral.engines.kubernetes.cluster.gpu_resources import gpu_labels, gpus_of
from corral.engines.kubernetes.inventory.cluster_gpus import GPU_POD
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading
from corral.engines.kubernetes.inventory.seen_node import SeenNode
from corral.features.services.cluster_view import ClusterView


@dataclass(frozen=True, slots=True)
class GpuStatus:
    """One GPU of the cluster. Values without a reading are None.

    Attributes:
        gpu_index: the driver's index on a node with readings, else a number from 0.
        utilization_percent: 0 to 100.
        memory_used_mb, memory_total_mb: in MiB; users of `nvidia-smi` know these names.
        allocatable: None if the node has unhealthy GPUs: Kubernetes gives their number, but not which they are.
    """

    node_name: str
    gpu_index: int
    utilization_percent: float | None
    memory_used_mb: int | None
    memory_total_mb: int | None
    temperature_c: float | None
    allocatable: bool | None


@dataclass(frozen=True, slots=True)
class NodeGpuSummary:
    """The GPUs of one node in figures.

    Attributes:
        idle_gpu_count: the number of GPUs that a new service can have now for itself.
        avg_utilization, avg_memory_usage: percent, over the GPUs with readings; 0.0 without readings.
        metered: whether there are readings.
        unusable: why no service may be put there; None if it may.
    """

    node_name: str
    total_gpus: int
    allocatable_gpus: int
    idle_gpu_count: int
    avg_utilization: float
    avg_memory_usage: float
    metered: bool
    unusable: str | None = None


def gpu_statuses(nodes: Iterable[SeenNode]) -> list[GpuStatus]:
    """Every GPU, by node and index."""
    return [status for node in sorted(nodes, key=lambda node: node.facts.name) for status in _statuses(node)]


def summaries(
    view: ClusterView,
    draft: Draft,
    rule: IdleFirst,
    rules: PlacementRules = GPU_POD,
    ready_nodes: Collection[str] | None = None,
) -> list[NodeGpuSummary]:
    """Return the figures of each node, by name.

    Args:
        view: the nodes.
        draft: their free capacity.
        rule: what an idle GPU is.
        rules: those of the pods that are to be put somewhere.
        ready_nodes: the nodes that have their model; None if any node will do.
    """
    found = []
    for name in draft.capacity.names:
        lacks_model = ready_nodes is not None and name not in ready_nodes
        unusable = "the model is not ready on it" if lacks_model else why_not_there(draft, name, rules)
        found.append(_summary(view.seen[name], draft, rule, unusable))
    return found


def calmest(found: Iterable[NodeGpuSummary], gpus: int) -> NodeGpuSummary | None:
    """Return the node of lowest mean utilisation that has so many healthy GPUs, even if pods have them.

    Nodes without readings come last. None if no node has so many.
    """
    able = [one for one in found if one.unusable is None and one.allocatable_gpus >= gpus]
    return min(
        able,
        key=lambda one: (not one.metered, one.avg_utilization, -one.idle_gpu_count, one.node_name),
        default=None,
    )


def why_not_there(draft: Draft, name: str, rules: PlacementRules) -> str | None:
    """Why nothing with these rules can start on a node, however many GPUs it has free; None if something can."""
    node, view = draft.capacity.node(name), draft.capacity.view
    if (silence := view.silences.get(name)) is not None:
        return silence.reason
    if node.cordoned is not None:
        return f"it is {node.cordoned}"
    if (taint := untolerated(node.taints, rules)) is not None:
        return f"it has the taint {taint}"
    if not allows(rules, node.labels, name):
        return f"it is no node with {selectors_called(rules.nodes)}"
    return None


def _summary(seen: SeenNode, draft: Draft, rule: IdleFirst, unusable: str | None) -> NodeGpuSummary:
    facts, found = seen.facts, idle_on(draft, seen.facts.name, rule)
    allocatable = gpus_of(facts.allocatable)
    return NodeGpuSummary(
        facts.name,
        max(gpus_of(facts.capacity), allocatable),
        allocatable,
        found.idle,
        found.utilization_pct,
        found.memory_pct,
        found.metered,
        unusable,
    )


def _statuses(node: SeenNode) -> list[GpuStatus]:
    facts = node.facts
    allocatable = gpus_of(facts.allocatable)
    total = max(gpus_of(facts.capacity), allocatable)
    read = {reading.index: reading for reading in node.read.gpus}
    unread = GpuReading(0, memory_total_mib=gpu_labels(facts).memory_mib)
    return [
        GpuStatus(
            facts.name,
            number,
            reading.utilization_pct,
            reading.memory_used_mib,
            reading.memory_total_mib,
            reading.temperature_c,
            None if 0 < allocatable < total else allocatable > 0,
        )
        for number in (sorted(read) if read else range(total))
        for reading in (read.get(number, unread),)
    ]
