"""The messages are on the wire what the kubelet's published interfaces say: each field by its tag."""

from typing import Any

import pytest

from corral.engines.kubernetes.agent.kubelet_api.messages import DEVICE_PLUGIN as PLUGIN
from corral.engines.kubernetes.agent.kubelet_api.messages import POD_RESOURCES as PODS


def text(tag: int, *content: bytes) -> bytes:
    """A field of text, or of a message, on the wire."""
    inner = b"".join(content)
    return bytes((tag << 3 | 2, len(inner))) + inner


def number(tag: int, value: int) -> bytes:
    return bytes((tag << 3, value))


OF_NUMA_1 = text(3, text(1, number(1, 1)))
NUMA_1 = PLUGIN.TopologyInfo(nodes=[PLUGIN.NUMANode(ID=1)])

WRITTEN = {
    "options": (
        PLUGIN.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True),
        number(1, 1) + number(2, 1),
    ),
    "registration": (
        PLUGIN.RegisterRequest(
            version="v1beta1",
            endpoint="a.sock",
            resource_name="x.com/gpu",
            options=PLUGIN.DevicePluginOptions(get_preferred_allocation_available=True),
        ),
        text(1, b"v1beta1") + text(2, b"a.sock") + text(3, b"x.com/gpu") + text(4, number(2, 1)),
    ),
    "list of devices": (
        PLUGIN.ListAndWatchResponse(devices=[PLUGIN.Device(ID="GPU-1", health="Healthy", topology=NUMA_1)]),
        text(1, text(1, b"GPU-1"), text(2, b"Healthy"), OF_NUMA_1),
    ),
    "preferred allocation": (
        PLUGIN.PreferredAllocationRequest(
            container_requests=[
                PLUGIN.ContainerPreferredAllocationRequest(
                    available_deviceIDs=["a", "b"], must_include_deviceIDs=["a"], allocation_size=2
                )
            ]
        ),
        text(1, text(1, b"a"), text(1, b"b"), text(2, b"a"), number(3, 2)),
    ),
    "preferred devices": (
        PLUGIN.PreferredAllocationResponse(
            container_responses=[PLUGIN.ContainerPreferredAllocationResponse(deviceIDs=["a"])]
        ),
        text(1, text(1, b"a")),
    ),
    "allocation": (
        PLUGIN.AllocateRequest(container_requests=[PLUGIN.ContainerAllocateRequest(devices_ids=["a", "b"])]),
        text(1, text(1, b"a"), text(1, b"b")),
    ),
    "allocated": (
        PLUGIN.AllocateResponse(
            container_responses=[
                PLUGIN.ContainerAllocateResponse(
                    envs={"K": "v"},
                    mounts=[PLUGIN.Mount(container_path="/c", host_path="/h", read_only=True)],
                    devices=[PLUGIN.DeviceSpec(container_path="/dev/c", host_path="/dev/h", permissions="rw")],
                    annotations={"a": "b"},
                    cdi_devices=[PLUGIN.CDIDevice(name="x.com/gpu=0")],
                )
            ]
        ),
        text(
            1,
            text(1, text(1, b"K"), text(2, b"v")),
            text(2, text(1, b"/c"), text(2, b"/h"), number(3, 1)),
            text(3, text(1, b"/dev/c"), text(2, b"/dev/h"), text(3, b"rw")),
            text(4, text(1, b"a"), text(2, b"b")),
            text(5, text(1, b"x.com/gpu=0")),
        ),
    ),
    "start of a container": (PLUGIN.PreStartContainerRequest(devices_ids=["a"]), text(1, b"a")),
    "devices of pods": (
        PODS.ListPodResourcesResponse(
            pod_resources=[
                PODS.PodResources(
                    name="p",
                    namespace="n",
                    containers=[
                        PODS.ContainerResources(
                            name="c",
                            devices=[PODS.ContainerDevices(resource_name="x.com/gpu", device_ids=["a", "b"])],
                        )
                    ],
                )
            ]
        ),
        text(
            1,
            text(1, b"p"),
            text(2, b"n"),
            text(3, text(1, b"c"), text(2, text(1, b"x.com/gpu"), text(2, b"a"), text(2, b"b"))),
        ),
    ),
    "devices that can be given": (
        PODS.AllocatableResourcesResponse(
            devices=[PODS.ContainerDevices(resource_name="r", device_ids=["a"])],
            memory=[PODS.ContainerMemory(memory_type="m", size=7)],
        ),
        text(1, text(1, b"r"), text(2, b"a")) + text(3, text(1, b"m"), number(2, 7)),
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_message_has_its_published_bytes(name: str) -> None:
    message, expected = WRITTEN[name]
    assert message.SerializeToString(deterministic=True) == expected


@pytest.mark.parametrize("name", WRITTEN)
def test_a_message_is_read_from_its_published_bytes(name: str) -> None:
    message: Any = WRITTEN[name][0]
    assert type(message).FromString(WRITTEN[name][1]) == message


def test_fields_of_a_newer_kubelet_are_skipped() -> None:
    newer = text(1, b"c") + text(5, text(2, b"claim")) + text(2, text(1, b"r"), text(2, b"a"))
    read = PODS.ContainerResources.FromString(newer)
    assert read.name == "c"
    assert read.devices[0].device_ids == ["a"]
