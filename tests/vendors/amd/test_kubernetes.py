"""AMD's devices in a cluster: by their resource, their labels, and the pods that ask for them."""

from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.core.model.jobs.container import Container
from corral.core.model.jobs.job import Request
from corral.engines.kubernetes.binding.pod_ask import read_ask
from corral.engines.kubernetes.cluster.amounts import requests_of
from corral.engines.kubernetes.cluster.gpu_resources import gpus_of
from corral.engines.kubernetes.cluster.node_facts import NodeFacts, read_node
from corral.engines.kubernetes.inventory.devices import devices_of, sick_count, slot_count
from corral.engines.kubernetes.pods.manifest import pod_of
from corral.engines.kubernetes.pods.names import Names
from corral.engines.kubernetes.pods.site import PodSite
from tests.engines.kubernetes.manifests import node, pod
from tests.engines.kubernetes.pods.launches import launch_of

LABELS = {
    "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
    "amd.com/gpu.vram": "192G",
    "amd.com/gpu.driver-version": "6.10.5",
}


def facts(labels: dict[str, str], **amounts: str) -> NodeFacts:
    item = node("gpu-07", gpus=0, labels=labels)
    of_node: dict[str, Any] = {name: text for name, text in item["status"]["capacity"].items() if "nvidia" not in name}
    item["status"] |= {"capacity": {**of_node, "amd.com/gpu": "8"}, "allocatable": {**of_node, "amd.com/gpu": "7"}}
    return read_node(item)


def test_a_nodes_devices_are_counted_and_named_by_its_own_labels() -> None:
    found = facts(LABELS)
    assert (slot_count(found), sick_count(found)) == (8, 1)
    device = devices_of(found, 8)[3]
    assert (device.uuid, device.vendor, device.model) == ("gpu-07.gpu-3", "amd", "AMD Instinct MI300X OAM")
    assert (device.memory_mib, device.mig_profile, device.compute_capability) == (192 * 1024, None, None)


def test_partitions_are_offered_each_as_a_device_of_its_mode() -> None:
    device = devices_of(facts({**LABELS, "amd.com/compute-memory-partition": "cpx_nps4"}), 8)[0]
    assert (device.mig_profile, device.memory_mib) == ("cpx", None)


def test_a_pod_that_asks_for_them_is_for_them_and_for_no_others() -> None:
    item = pod("p", "team")
    item["metadata"] |= {"uid": "u1"}
    limits = item["spec"]["containers"][0]["resources"]["limits"]
    limits["amd.com/gpu"] = "2"
    request = read_ask(item).request
    assert (request.devices, request.vendor) == (2, "amd")
    assert gpus_of(requests_of(item["spec"])) == 2
    limits["nvidia.com/gpu"] = "1"
    with pytest.raises(Refused, match="GPUs of one maker"):
        read_ask(item)


def test_a_jobs_pod_asks_for_the_resource_of_its_vendor_and_tolerates_its_taint() -> None:
    request = Request(devices=2, vendor="amd")
    made = pod_of(launch_of(17, gpus=2, request=request), Names("abc123"), "ml", PodSite(), kill_grace_s=10.0)
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"amd.com/gpu": "2"}
    assert [one.key for one in PodSite(image="i").tolerations(Container("i"), request)] == ["amd.com/gpu"]
