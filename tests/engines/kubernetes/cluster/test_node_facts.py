"""What is kept of nodes, and what their labels say of GPUs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.placing.placement_rules import Taint, TaintEffect
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.pod_facts import read_pod
from corral.vendors.nvidia.gpu_labels import read_gpu_labels
from corral.vendors.vendor import GpuLabels
from tests.engines.kubernetes.manifests import node

OLD = {
    "nvidia.com/cuda.driver.major": "535",
    "nvidia.com/cuda.driver.minor": "129",
    "nvidia.com/cuda.driver.rev": "03",
    "nvidia.com/cuda.runtime.major": "12",
    "nvidia.com/cuda.runtime.minor": "2",
}
NEW = {
    "nvidia.com/cuda.driver-version.major": "550",
    "nvidia.com/cuda.driver-version.minor": "54",
    "nvidia.com/cuda.driver-version.revision": "15",
    "nvidia.com/cuda.runtime-version.major": "12",
    "nvidia.com/cuda.runtime-version.minor": "4",
}


def test_a_heartbeat_changes_nothing() -> None:
    item = node("a")
    item["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:00Z"
    assert read_node(item) == read_node(node("a"))


def test_a_node_that_is_not_ready_says_why_and_one_that_is_silent_is_unknown() -> None:
    item = node("a")
    item["status"]["conditions"][0] = {"type": "Ready", "status": "False", "reason": "NoNetwork", "message": "cni"}
    assert (read_node(item).ready, read_node(item).not_ready_why) == (False, "NoNetwork: cni")
    item["status"]["conditions"][0]["status"] = "Unknown"
    assert read_node(item).ready is None
    item["status"]["conditions"] = []
    assert read_node(item).ready is None


def test_the_host_name_that_affinity_names_need_not_be_the_nodes_name() -> None:
    item = node("a", labels={"kubernetes.io/hostname": "a.example.test"})
    assert (read_node(item).name, read_node(item).hostname) == ("a", "a.example.test")
    del item["metadata"]["labels"]
    assert read_node(item).hostname == "a"


def test_taints_are_read_and_an_effect_that_is_not_known_keeps_pods_off() -> None:
    item = node("a")
    item["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "dedicated", "value": "infra", "effect": "NoExecute"}, {"key": "x", "effect": "Someday"}],
    }
    facts = read_node(item)
    assert facts.unschedulable
    assert facts.taints == (
        Taint("dedicated", "infra", TaintEffect.NO_EXECUTE),
        Taint("x", "", TaintEffect.NO_SCHEDULE),
    )


def test_a_quantity_that_makes_no_sense_leaves_a_node_with_nothing_and_says_so() -> None:
    item = node("a")
    item["status"]["allocatable"] = {"nvidia.com/gpu": "eight"}
    facts = read_node(item)
    assert facts.allocatable.of("nvidia.com/gpu") == 0
    assert "eight" in (facts.unreadable or "")


@pytest.mark.parametrize(
    ("labels", "driver", "cuda"),
    [(OLD, "535.129.03", (12, 2)), ({**OLD, **NEW}, "550.54.15", (12, 4)), ({}, None, None)],
)
def test_new_labels_of_versions_count_before_old_ones(
    labels: dict[str, str], driver: str | None, cuda: tuple[int, int] | None
) -> None:
    read = read_gpu_labels(labels)
    assert (read.driver_version, read.cuda_version) == (driver, cuda)


@pytest.mark.parametrize(
    ("written", "product", "profile"),
    [
        ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", None),
        ("NVIDIA-A100-SXM4-80GB-SHARED", "NVIDIA-A100-SXM4-80GB", None),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "NVIDIA-A100-SXM4-80GB", "1g.10gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED", "NVIDIA-A100-SXM4-80GB", "1g.10gb"),
        ("", None, None),
    ],
)
def test_a_product_is_told_from_how_it_is_shared_or_sliced(
    written: str, product: str | None, profile: str | None
) -> None:
    read = read_gpu_labels({"nvidia.com/gpu.product": written})
    assert (read.product, read.profile) == (product, profile)


def test_labels_with_nonsense_say_nothing() -> None:
    nonsense = {
        "nvidia.com/gpu.count": "-3",
        "nvidia.com/gpu.memory": "80GB",
        "nvidia.com/gpu.compute.major": "8",
        "nvidia.com/gpu.compute.minor": "",
        "nvidia.com/gpu.sharing-strategy": "yes",
        "nvidia.com/mig.capable": "maybe",
        "nvidia.com/cuda.driver-version.full": "$(reboot)",
    }
    assert read_gpu_labels(nonsense) == GpuLabels()


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PARTS = (
    "labels",
    "annotations",
    "ownerReferences",
    "taints",
    "capacity",
    "conditions",
    "containers",
    "initContainers",
    "containerStatuses",
    "nodeName",
    "phase",
    "overhead",
    "resources",
    "creationTimestamp",
    "addresses",
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(PARTS, JSON)))
def test_no_object_keeps_the_others_from_being_read(part: dict[str, Any]) -> None:
    for item in ({"metadata": part, "spec": part, "status": part}, part, {"metadata": 3, "spec": [], "status": "x"}):
        read_node(item)
        read_pod(item)
