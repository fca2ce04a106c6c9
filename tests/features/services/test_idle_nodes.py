"""Idle GPUs are counted as users of cluster-wide discovery expect, and the planner's ranking finds the best node."""

from dataclasses import fields
from typing import Any

import pytest

from corral.cli.reading import read_options
from corral.core.model.errors import Refused
from corral.core.model.placing.placement_rules import IdleFirst
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingsFound, ReadingSources
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading
from corral.features.services.cluster_view import ClusterView
from corral.features.services.commands import SelectionOptions
from corral.features.services.idle_nodes import NodeGpuSummary, gpu_statuses, summaries
from corral.features.services.manifests import ServiceShape
from corral.features.services.node_choice import best_nodes
from corral.features.services.run_commands.service_commands import selection_given
from corral.features.services.selection import Fallback, NodeSelection, command_words, selection_of
from corral.features.services.service_rules import service_request
from corral.features.services.watched_gpus import ClusterSeen, reading_sources
from tests.engines.kubernetes import manifests

READY = [{"type": "Ready", "status": "True"}]


class Cluster:
    """Nodes and pods that only a view knows."""

    def __init__(self, *, hosts: bool = False) -> None:
        self.view = ClusterView(hosts=hosts)
        self._readings: dict[str, tuple[GpuReading, ...]] = {}
        self._partial: frozenset[str] = frozenset()

    def node(
        self, name: str, *used: float, gpus: int = 0, healthy: int | None = None, memory_mib: int = 0, **more: Any
    ) -> "Cluster":
        """A node whose GPUs are used so much, in percent; of `gpus` nothing is read."""
        count = gpus or len(used)
        made = manifests.node(name, gpus=count, labels={"kubernetes.io/hostname": name, **more.pop("labels", {})})
        made["status"]["conditions"] = READY
        offered = {"nvidia.com/gpu": str(count if healthy is None else healthy), **more.pop("allocatable", {})}
        made["status"]["allocatable"] = {**made["status"]["allocatable"], **offered}
        made["spec"] = {**(made.get("spec") or {}), **more}
        self.view.book.nodes_changed([Change(None, read_node(made))])
        self._readings[name] = tuple(GpuReading(n, None, pct, memory_mib, 1000, 40.0) for n, pct in enumerate(used))
        self._read()
        return self

    def pod(self, name: str, node: str, gpus: int, **spec: Any) -> "Cluster":
        made = manifests.pod(name, "team", gpus=gpus, node=node, **spec)
        made["metadata"]["uid"] = name
        self.view.book.occupants_changed([Change(None, self.view.keep(made))])
        return self

    def reading(self, node: str, *gpus: GpuReading, partial: bool = False) -> "Cluster":
        self._readings[node] = gpus
        self._partial = frozenset([node]) if partial else frozenset()
        self._read()
        return self

    def _read(self) -> None:
        self.view.read(ReadingsFound(self._readings, partial=self._partial), 1.0, 0.0)

    def summary(self, name: str = "a", **thresholds: Any) -> NodeGpuSummary:
        rule = IdleFirst(**thresholds)
        return next(one for one in summaries(self.view, self.view.draft(), rule) if one.node_name == name)

    def idle(self, name: str = "a", **thresholds: Any) -> int:
        return self.summary(name, **thresholds).idle_gpu_count

    def best(self, need: int = 1, rules: Any = None, **options: Any) -> str | None:
        selection = selection_of(options)
        request = service_request(ServiceShape(need), rules or {}, selection)
        found = best_nodes(ClusterSeen(self.view, list), self.view.draft(), request, selection.fallback)
        return next(iter(found), None)


def test_a_gpu_at_a_threshold_is_not_idle() -> None:
    assert Cluster().node("a", 29.9, 30, 0).idle() == 2
    assert Cluster().node("a", 0, memory_mib=499).idle() == 1
    assert Cluster().node("a", 0, memory_mib=500).idle() == 0
    assert Cluster().node("a", 40, 40).idle(utilization_pct=50) == 2


def test_no_more_gpus_are_idle_than_pods_have_left_and_nobody_holds() -> None:
    assert Cluster().node("a", 0, 0, 0, 0).pod("p", "a", 3).idle() == 1
    assert Cluster().node("a", 0, 90, 90, 90).pod("p", "a", 1).idle() == 1
    held = Cluster().node("a", 0, 0, 0, 0).pod("p", "a", 1)
    held.view.hold({"a": 2})
    assert held.idle() == 1
    held.view.hold({})
    assert held.idle() == 3
    assert Cluster().node("a", 0, 0).pod("p", "a", 5).idle() == 0


def test_without_readings_what_pods_have_not_asked_for_is_idle_and_means_are_zero() -> None:
    seen = Cluster().node("a", gpus=8, healthy=6).pod("p", "a", 1)
    seen.view.hold({"a": 2})
    assert seen.summary() == NodeGpuSummary("a", 8, 6, 3, 0.0, 0.0, metered=False)


def test_a_gpu_without_a_reading_is_not_idle_where_others_have_one() -> None:
    seen = Cluster().node("a", gpus=2)
    seen.reading("a", GpuReading(0, None, 0.0, 0, 1000), GpuReading(1, utilization_pct=0.0))
    assert seen.idle() == 1


def test_where_only_gpus_of_pods_are_seen_the_others_are_idle_as_pods_left_them() -> None:
    seen = Cluster().node("a", gpus=8).pod("p", "a", 1)
    seen.reading("a", GpuReading(0, None, 95.0, 0, 1000), partial=True)
    summary = seen.summary()
    assert (summary.idle_gpu_count, summary.avg_utilization, summary.metered) == (7, 95.0, True)


def test_enough_idle_gpus_then_more_then_lower_use_then_the_name_decide() -> None:
    assert Cluster().node("a", gpus=1).node("b", gpus=2).best(2) == "b"
    assert Cluster().node("a", gpus=2).node("b", 20, 20, 20, 20, 20).best() == "b"
    assert Cluster().node("a", 20, 20).node("b", 10, 10).best() == "b"
    assert Cluster().node("b", gpus=4).node("a", gpus=4).best() == "a"


def test_where_none_has_enough_kubernetes_decides_unless_a_node_is_to_be_pinned() -> None:
    busy = Cluster().node("a", 90, 90).node("b", 80, 0).node("c", 10).node("d", gpus=2).pod("p", "d", 2)
    assert busy.best(2) is None
    assert busy.best(2, fallback="pin") == "b"
    assert Cluster().best(fallback="pin") is None


def test_a_node_that_cannot_be_used_is_never_chosen() -> None:
    closed = Cluster().node("a", gpus=8, unschedulable=True)
    assert closed.best() is None
    assert closed.best(fallback="pin") is None
    assert "kubectl uncordon a" in (closed.summary().unusable or "")


@pytest.mark.parametrize(
    ("term", "holds"),
    [
        (("type", "In", "h100", "a100"), True),
        (("type", "NotIn", "h100"), False),
        (("none", "NotIn", "h100"), True),
        (("gpus", "Gt", "7"), True),
        (("kubernetes.io/hostname", "In", "a"), True),
        (("type", "DoesNotExist"), False),
    ],
)
def test_the_rules_of_the_runtime_are_those_that_the_planner_knows(term: tuple[str, ...], holds: bool) -> None:
    key, operator, *values = term
    expression = {"key": key, "operator": operator, "values": values}
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    }
    seen = Cluster().node("a", gpus=8, labels={"type": "h100", "gpus": "8"})
    assert (seen.best(rules={"affinity": {"nodeAffinity": required}}) == "a") is holds


def test_a_rule_that_is_not_understood_is_refused_and_not_left_out() -> None:
    newer = {"matchExpressions": [{"key": "type", "operator": "Newer", "values": ["7"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [newer]}}
    with pytest.raises(Refused, match="does not understand the operator 'Newer'"):
        Cluster().best(rules={"affinity": {"nodeAffinity": required}})


def test_taints_keep_off_what_does_not_tolerate_them_but_that_of_gpu_nodes_and_soft_ones_do_not() -> None:
    taints = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}, {"key": "old", "effect": "PreferNoSchedule"}]
    assert Cluster().node("a", gpus=8, taints=taints).best() == "a"
    closed = Cluster().node("a", gpus=8, taints=[*taints, {"key": "team", "value": "x", "effect": "NoSchedule"}])
    assert closed.best() is None
    assert closed.summary().unusable == "it has the taint team=x:NoSchedule"
    assert closed.best(rules={"tolerations": [{"key": "team", "operator": "Exists"}]}) == "a"


def test_preferred_nodes_come_first_if_they_have_enough_idle_gpus() -> None:
    seen = Cluster().node("a", gpus=8).node("b", gpus=4, labels={"zone": "x"}).node("c", gpus=2)
    assert seen.best(2, prefer_labels={"zone": "x"}) == "b"
    assert seen.best(2, prefer_nodes=["c"]) == "c"
    assert seen.best(8, prefer_nodes=["c"]) == "a"


def test_a_node_that_is_free_as_a_whole_is_kept_so_if_asked() -> None:
    seen = Cluster().node("a", gpus=8).node("b", gpus=8).pod("p", "b", 3).node("c", gpus=8).pod("q", "c", 7)
    assert seen.best() == "a"
    assert seen.best(whole_nodes_last=True) == "c"
    assert seen.best(2, whole_nodes_last=True) == "b"
    assert seen.best(8, whole_nodes_last=True) == "a"


def test_room_for_the_pod_its_cpus_and_its_memory_counts_if_asked() -> None:
    container = {"resources": {"requests": {"cpu": "8", "memory": "64Gi"}}}
    rules = {"containers": [container]}
    for hosts, best in ((False, "a"), (True, "d")):
        seen = Cluster(hosts=hosts)
        seen.node("a", gpus=8, allocatable={"cpu": "4"}).node("b", gpus=7, allocatable={"memory": "8Gi"})
        seen.node("c", gpus=6, allocatable={"pods": "1"}).pod("other", "c", 0).node("d", gpus=5)
        assert seen.best(rules=rules, count_hosts=hosts) == best


def test_each_gpu_is_told_with_what_is_known_and_nothing_is_invented() -> None:
    seen = (
        Cluster().node("b", gpus=2, healthy=1, labels={"nvidia.com/gpu.memory": "81559"}).node("a", 7, memory_mib=250)
    )
    seen.view.follow()
    measured, first, second = gpu_statuses(seen.view.seen.values())
    assert (measured.utilization_percent, measured.memory_used_mb, measured.memory_total_mb) == (7, 250, 1000)
    assert (measured.temperature_c, measured.allocatable) == (40.0, True)
    assert (first.gpu_index, second.gpu_index) == (0, 1)
    assert (first.utilization_percent, first.memory_used_mb, first.memory_total_mb) == (None, None, 81559)
    assert first.allocatable is None  # one of the two is unhealthy, and nobody says which


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fallback": "guess"}, "fallback: 'guess' is not allowed"),
        ({"affinity": "best"}, "affinity: 'best' is not allowed"),
        ({"utilization_threshold": 101}, "utilization_threshold must be from 0 to 100"),
        ({"threshold": 3}, "threshold is not a known field"),
        ({"prefer_labels": {"zone": 3}}, "prefer_labels"),
        ({"prefer_nodes": ["n"] * 101}, "prefer_nodes are at most 100 names"),
        ({"prefer_labels": {"": "x"}}, "prefer_labels are at most 100 names"),
        ({"window_s": -1}, "window_s must be from 0"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        selection_of(options)


def test_options_are_the_same_values_whoever_writes_them() -> None:
    written = {"fallback": "pin", "prefer_nodes": ["a"], "memory_threshold": 40}
    assert selection_of(written) == NodeSelection(fallback=Fallback.PIN, prefer_nodes=("a",), memory_threshold=40)


def test_the_command_has_every_option_and_means_the_same_by_it() -> None:
    everything = {
        "affinity": "required",
        "fallback": "pin",
        "utilization_threshold": 20.5,
        "memory_threshold": 40,
        "prefer_nodes": ["a", "b"],
        "prefer_labels": {"zone": "x"},
        "whole_nodes_last": True,
        "count_hosts": True,
        "window_s": 3600,
        "prometheus_url": "http://prometheus:9090",
        "exec_nvidia_smi": True,
    }
    selection = selection_of(everything)
    assert everything.keys() == {one.name for one in fields(NodeSelection)}
    assert selection_given(read_options(SelectionOptions, command_words(selection))) == selection
    assert command_words(NodeSelection()) == []


def test_one_variable_names_the_prometheus_of_every_choice_that_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_PROMETHEUS_URL", "http://usual:9090")
    assert reading_sources(NodeSelection()) == ReadingSources("http://usual:9090")
    own = NodeSelection(prometheus_url="http://own:9090", window_s=3600, exec_nvidia_smi=True)
    assert reading_sources(own) == ReadingSources("http://own:9090", exec_nvidia_smi=True, window_s=3600)
    monkeypatch.delenv("CORRAL_PROMETHEUS_URL")
    assert reading_sources(NodeSelection()) == ReadingSources()
