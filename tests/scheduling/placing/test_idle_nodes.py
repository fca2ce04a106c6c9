"""Idle GPUs are counted as users of cluster-wide discovery expect, and the best node is told from them."""

from corral.model.device import Silence
from corral.model.fact import Delta, DeviceCordoned, NodeObserved, SilenceObserved
from corral.model.view import View
from corral.scheduling.placing.idle_nodes import find_best_node_for_deployment, get_node_gpu_summaries
from tests.scheduling.lab import T0, box, idle, observed, view_of


def cluster(**utilizations: tuple[int, ...]) -> View:
    """Nodes whose GPUs are used so much, in percent, with their memory free."""
    deltas: list[Delta] = []
    for name, used in utilizations.items():
        node = box(name, len(used))
        deltas.append(NodeObserved(node))
        deltas += [idle(device, utilization_pct=pct) for device, pct in zip(node.devices, used, strict=True)]
    return view_of(deltas)


def test_a_gpu_at_a_threshold_is_not_idle() -> None:
    view = cluster(a=(29, 30, 0))
    assert get_node_gpu_summaries(view)["a"].idle_gpus == (0, 2)


def test_a_gpu_whose_memory_is_half_used_is_not_idle() -> None:
    node = box("a", 2)
    view = view_of([NodeObserved(node), idle(node.devices[0], memory_free_mib=40_960), idle(node.devices[1])])
    summary = get_node_gpu_summaries(view)["a"]
    assert summary.idle_gpus == (1,)
    assert summary.avg_memory_usage == 25.0


def test_thresholds_that_are_given_take_effect() -> None:
    view = cluster(a=(10, 40), b=(40, 40, 40))
    assert find_best_node_for_deployment(view) == "a"
    assert find_best_node_for_deployment(view, utilization_threshold=50) == "b"
    assert get_node_gpu_summaries(view, utilization_threshold=5)["a"].idle_gpu_count == 0


def test_a_node_with_as_many_idle_gpus_as_needed_comes_first_then_most_then_least_used() -> None:
    assert find_best_node_for_deployment(cluster(a=(0, 90, 90, 90), b=(20, 20)), 2) == "b"
    assert find_best_node_for_deployment(cluster(a=(0, 0), b=(20, 20, 20)), 1) == "b"
    assert find_best_node_for_deployment(cluster(a=(20, 10), b=(5, 5)), 1) == "b"
    assert find_best_node_for_deployment(cluster(b=(5, 5), a=(5, 5)), 1) == "a"


def test_without_metrics_what_nobody_asked_for_counts_as_idle() -> None:
    node = box("a", 2)
    summary = get_node_gpu_summaries(view_of([NodeObserved(node)]))["a"]
    assert (summary.idle_gpu_count, summary.avg_utilization) == (2, None)


def test_a_gpu_that_is_set_apart_or_cannot_be_read_is_never_idle() -> None:
    node = box("a", 3)
    deltas: list[Delta] = [
        NodeObserved(node),
        idle(node.devices[0], unreadable="the driver does not answer"),
        idle(node.devices[1]),
        DeviceCordoned("GPU-a-2", "repair", by="root", at=T0),
    ]
    summary = get_node_gpu_summaries(view_of(deltas))["a"]
    assert (summary.total_gpus, summary.allocatable_gpus, summary.idle_gpus) == (3, 1, (1,))


def test_no_node_is_told_when_nothing_is_idle_or_none_is_large_enough() -> None:
    assert find_best_node_for_deployment(cluster(a=(90, 80))) is None
    assert find_best_node_for_deployment(view_of(observed(box("a", 2))), 3) is None
    assert find_best_node_for_deployment(View()) is None


def test_a_node_on_which_nothing_starts_has_nothing_to_offer() -> None:
    view = view_of([*observed(box("a"), box("b")), SilenceObserved("a", Silence(T0, "it has not answered"))])
    assert get_node_gpu_summaries(view)["a"].allocatable_gpus == 0
    assert find_best_node_for_deployment(view) == "b"
