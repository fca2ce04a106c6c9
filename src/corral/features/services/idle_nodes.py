"""Which nodes have idle GPUs, and the best of them to deploy a model service on. Pure.

The node is only suggested to Kubernetes. A GPU is idle below 30 % utilisation and below 50 % memory use. A node has at
most as many idle GPUs as its pods have not requested, and without readings exactly as many.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean
from typing import Literal

from corral.core.model.errors import Refused
from corral.engines.kubernetes.inventory.cluster_gpus import NodeGpus
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading

UTILIZATION_THRESHOLD = 30.0
MEMORY_THRESHOLD = 50.0

Fallback = Literal["kubernetes", "pin"]
FALLBACKS: tuple[Fallback, ...] = ("kubernetes", "pin")
"""The choice if no node has enough idle GPUs: Kubernetes decides, or the node of lowest utilisation is taken."""


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


def gpu_statuses(nodes: Iterable[NodeGpus]) -> list[GpuStatus]:
    """Every GPU, by node and index."""
    return [status for node in sorted(nodes, key=lambda node: node.node_name) for status in _statuses(node)]


def summary_of(
    node: NodeGpus,
    utilization_threshold: float = UTILIZATION_THRESHOLD,
    memory_threshold: float = MEMORY_THRESHOLD,
) -> NodeGpuSummary:
    """Return the figures of one node. A GPU at or over a threshold, in percent, is not idle."""
    measured = [
        (reading.utilization_pct, used_pct)
        for reading in node.readings
        if reading.utilization_pct is not None and (used_pct := reading.memory_used_pct) is not None
    ]
    left = node.allocatable_gpus - node.requested_gpus
    if measured and not node.partly_read:
        left = min(left, sum(used < utilization_threshold and memory < memory_threshold for used, memory in measured))
    return NodeGpuSummary(
        node.node_name,
        node.total_gpus,
        node.allocatable_gpus,
        max(0, left - node.held_gpus),
        mean(used for used, _ in measured) if measured else 0.0,
        mean(memory for _, memory in measured) if measured else 0.0,
        bool(measured),
        node.unusable,
    )


def best_node(
    summaries: Iterable[NodeGpuSummary], required_gpus: int = 1, fallback: Fallback = "kubernetes"
) -> NodeGpuSummary | None:
    """Return the node to deploy on: most idle GPUs, then lowest mean utilisation, then first by name.

    If no node has `required_gpus` idle GPUs, return None, and Kubernetes decides. With "pin", return the node of lowest
    mean utilisation that has enough allocatable GPUs; nodes without readings come last.
    """
    if required_gpus < 1:
        raise Refused(f"{required_gpus} GPUs cannot be looked for; 1 or more can", field="required_gpus")
    if fallback not in FALLBACKS:
        raise Refused(f"fallback {fallback!r} is not known: kubernetes or pin", field="fallback")
    able = [one for one in summaries if one.unusable is None and one.allocatable_gpus >= required_gpus]
    idle = [one for one in able if one.idle_gpu_count >= required_gpus]
    if idle:
        return min(idle, key=lambda one: (-one.idle_gpu_count, one.avg_utilization, one.node_name))
    if fallback == "pin" and able:
        return min(able, key=lambda one: (not one.metered, one.avg_utilization, -one.idle_gpu_count, one.node_name))
    return None


def _statuses(node: NodeGpus) -> list[GpuStatus]:
    allocatable = None if 0 < node.allocatable_gpus < node.total_gpus else node.allocatable_gpus > 0
    read = {reading.index: reading for reading in node.readings}
    numbers = sorted(read) if read else range(node.total_gpus)
    unread = GpuReading(0, memory_total_mib=node.memory_mib)
    return [
        GpuStatus(
            node.node_name,
            number,
            reading.utilization_pct,
            reading.memory_used_mib,
            reading.memory_total_mib,
            reading.temperature_c,
            allocatable,
        )
        for number in numbers
        for reading in (read.get(number, unread),)
    ]
