"""Which nodes have idle GPUs by their last samples, and the best node to deploy a service on.

For callers that let another scheduler place the service, and only suggest a node to it. Names and rules follow
cluster-wide GPU discovery: a GPU is idle below 30 % utilisation and below 50 % memory use. Without metrics, a GPU that
may be used and is not allocated counts as idle.
"""

from dataclasses import dataclass
from statistics import mean

from corral.model.device import Device, Node, NodeStatus
from corral.model.view import View

UTILIZATION_THRESHOLD = 30.0
MEMORY_THRESHOLD = 50.0


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """The GPUs of one node.

    Attributes:
        allocatable_gpus: those that may be allocated at all: readable, healthy, not cordoned.
        idle_gpus: allocatable ones that are idle, by index.
        avg_utilization, avg_memory_usage: percent, over the allocatable GPUs that have metrics; None when none has.
    """

    node_name: str
    total_gpus: int
    allocatable_gpus: int
    idle_gpus: tuple[int, ...]
    avg_utilization: float | None
    avg_memory_usage: float | None

    @property
    def idle_gpu_count(self) -> int:
        """The number of idle GPUs."""
        return len(self.idle_gpus)


def get_node_gpu_summaries(
    view: View,
    *,
    utilization_threshold: float = UTILIZATION_THRESHOLD,
    memory_threshold: float = MEMORY_THRESHOLD,
) -> dict[str, NodeSummary]:
    """A summary of every node, by name. Thresholds are in percent; a GPU that reaches one is not idle."""
    return {
        name: _summary(view, view.nodes[name], utilization_threshold, memory_threshold) for name in sorted(view.nodes)
    }


def find_best_node_for_deployment(
    view: View,
    required_gpus: int = 1,
    *,
    utilization_threshold: float = UTILIZATION_THRESHOLD,
    memory_threshold: float = MEMORY_THRESHOLD,
) -> str | None:
    """The name of the best node with at least `required_gpus` allocatable GPUs; None when no such node has an idle GPU.

    Nodes with enough idle GPUs come first, then those with most of them, then the lowest mean utilisation, then the
    first by name.
    """
    summaries = get_node_gpu_summaries(
        view, utilization_threshold=utilization_threshold, memory_threshold=memory_threshold
    )
    able = [s for s in summaries.values() if s.allocatable_gpus >= required_gpus and s.idle_gpus]
    if not able:
        return None
    best = min(
        able,
        key=lambda s: (s.idle_gpu_count < required_gpus, -s.idle_gpu_count, s.avg_utilization or 0.0, s.node_name),
    )
    return best.node_name


def _summary(view: View, node: Node, utilization_threshold: float, memory_threshold: float) -> NodeSummary:
    ready = view.status(node.name) is NodeStatus.READY
    allocatable = [device for device in node.devices if ready and _allocatable(view, device)]
    utilizations, memories, idle = [], [], []
    for device in allocatable:
        metrics = _metrics(view, device)
        if metrics is None:
            if not view.holders.get(device.uuid):
                idle.append(device.index)
            continue
        utilization, memory = metrics
        utilizations.append(utilization)
        memories.append(memory)
        if utilization < utilization_threshold and memory < memory_threshold:
            idle.append(device.index)
    return NodeSummary(
        node.name,
        len(node.devices),
        len(allocatable),
        tuple(sorted(idle)),
        mean(utilizations) if utilizations else None,
        mean(memories) if memories else None,
    )


def _allocatable(view: View, device: Device) -> bool:
    condition = view.conditions.get(device.uuid)
    if condition is None:
        return device.uuid not in view.cordons
    return condition.unreadable is None and condition.unhealthy is None and condition.cordoned is None


def _metrics(view: View, device: Device) -> tuple[float, float] | None:
    """Utilisation and memory use in percent; None where either is not known."""
    condition = view.conditions.get(device.uuid)
    if condition is None or condition.utilization_pct is None or condition.memory_free_mib is None:
        return None
    if not device.memory_mib:
        return None
    return float(condition.utilization_pct), 100.0 * (1 - condition.memory_free_mib / device.memory_mib)
