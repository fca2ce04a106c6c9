"""Idle GPUs are counted as users of cluster-wide discovery expect, and the best node is told from them."""

import pytest

from corral.core.model.errors import Refused
from corral.engines.kubernetes.inventory.cluster_gpus import NodeGpus
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading
from corral.features.services.idle_nodes import NodeGpuSummary, best_node, gpu_statuses, summary_of


def metered(*used: float, memory_mib: int = 0, requested: int = 0, held: int = 0, name: str = "a") -> NodeGpus:
    """A node whose GPUs are used so much, in percent."""
    readings = tuple(GpuReading(n, None, pct, memory_mib, 1000, 40.0) for n, pct in enumerate(used))
    return NodeGpus(name, name, len(used), len(used), requested, held, readings=readings)


def node(name: str, idle: int, used: float = 0.0, *, gpus: int = 8, unusable: str | None = None) -> NodeGpuSummary:
    return NodeGpuSummary(name, gpus, gpus, idle, used, 0.0, used > 0, unusable)


def chosen(*nodes: NodeGpuSummary, need: int = 1, fallback: str = "kubernetes") -> str | None:
    found = best_node(nodes, need, fallback)  # type: ignore[arg-type]
    return None if found is None else found.node_name


def test_a_gpu_at_a_threshold_is_not_idle() -> None:
    assert summary_of(metered(29.9, 30, 0)).idle_gpu_count == 2
    assert summary_of(metered(0, memory_mib=499)).idle_gpu_count == 1
    assert summary_of(metered(0, memory_mib=500)).idle_gpu_count == 0
    assert summary_of(metered(40, 40), utilization_threshold=50).idle_gpu_count == 2


def test_no_more_gpus_are_idle_than_pods_have_left_and_nobody_holds() -> None:
    assert summary_of(metered(0, 0, 0, 0, requested=3)).idle_gpu_count == 1
    assert summary_of(metered(0, 90, 90, 90, requested=1)).idle_gpu_count == 1
    assert summary_of(metered(0, 0, 0, 0, requested=1, held=2)).idle_gpu_count == 1
    assert summary_of(metered(0, 0, requested=5)).idle_gpu_count == 0


def test_without_readings_what_pods_have_not_asked_for_is_idle_and_means_are_zero() -> None:
    summary = summary_of(NodeGpus("a", "a", 8, 6, requested_gpus=1, held_gpus=2))
    assert summary == NodeGpuSummary("a", 8, 6, 3, 0.0, 0.0, metered=False)


def test_a_gpu_without_a_reading_is_not_idle_where_others_have_one() -> None:
    one = metered(0)
    unread = NodeGpus("a", "a", 2, 2, readings=(*one.readings, GpuReading(1, utilization_pct=0.0)))
    assert summary_of(unread).idle_gpu_count == 1


def test_enough_idle_gpus_then_more_then_lower_use_then_the_name_decide() -> None:
    assert chosen(node("a", 1), node("b", 2), need=2) == "b"
    assert chosen(node("a", 2), node("b", 5, 20)) == "b"
    assert chosen(node("a", 4, 20), node("b", 4, 10)) == "b"
    assert chosen(node("b", 4), node("a", 4)) == "a"


def test_where_none_has_enough_kubernetes_decides_unless_a_node_is_to_be_pinned() -> None:
    busy = (node("a", 0, 90), node("b", 1, 80), node("c", 0, 10, gpus=1), node("d", 0))
    assert chosen(*busy, need=2) is None
    assert chosen(*busy, need=2, fallback="pin") == "b"
    assert chosen(fallback="pin") is None


def test_a_node_that_cannot_be_used_is_never_chosen() -> None:
    assert chosen(node("a", 8, unusable="it is cordoned"), fallback="pin") is None


@pytest.mark.parametrize(("need", "fallback"), [(0, "kubernetes"), (-1, "pin"), (1, "guess")])
def test_a_choice_that_makes_no_sense_is_refused(need: int, fallback: str) -> None:
    with pytest.raises(Refused):
        chosen(node("a", 8), need=need, fallback=fallback)


def test_each_gpu_is_told_with_what_is_known_and_nothing_is_invented() -> None:
    statuses = gpu_statuses([NodeGpus("b", "b", 2, 1, memory_mib=81559), metered(7, memory_mib=250)])
    measured, first, second = statuses
    assert (measured.utilization_percent, measured.memory_used_mb, measured.memory_total_mb) == (7, 250, 1000)
    assert (measured.temperature_c, measured.allocatable) == (40.0, True)
    assert (first.gpu_index, second.gpu_index) == (0, 1)
    assert (first.utilization_percent, first.memory_used_mb, first.memory_total_mb) == (None, None, 81559)
    assert first.allocatable is None  # one of the two is unhealthy, and nobody says which


def test_where_only_gpus_of_pods_are_seen_the_others_are_idle_as_pods_left_them() -> None:
    seen = metered(95, requested=1)
    node = NodeGpus("a", "a", 8, 8, requested_gpus=1, readings=seen.readings, partly_read=True)
    summary = summary_of(node)
    assert (summary.idle_gpu_count, summary.avg_utilization, summary.metered) == (7, 95.0, True)
