"""The messages of the kubelet's interfaces as protobuf classes, made from their published fields.

They are made at run time: generated code runs only beside the versions of protobuf for which it was generated.
"""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint64": _Field.TYPE_UINT64,
}
_REPEATED = "repeated "
_MAP = "map "


def _messages(package: str, fields: Mapping[str, Sequence[str]]) -> Any:
    """The classes of a package's messages, as attributes. The tag of each field is its place in its message.

    A field is written "TYPE NAME", with "repeated" before it where that applies; "map" is a map of strings.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, declared in fields.items():
        message = file.message_type.add(name=name)
        for tag, field in enumerate(declared, start=1):
            _add_field(message, package, tag, field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in fields}
    return SimpleNamespace(**found)


def _add_field(message: Any, package: str, tag: int, declared: str) -> None:
    kind, name = declared.removeprefix(_REPEATED).split()
    field = message.field.add(name=name, number=tag)
    field.label = _Field.LABEL_REPEATED if declared.startswith((_REPEATED, _MAP)) else _Field.LABEL_OPTIONAL
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = _Field.TYPE_MESSAGE
    if not declared.startswith(_MAP):
        field.type_name = f".{package}.{kind}"
        return
    entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    for number, part in enumerate(("key", "value"), start=1):
        entry.field.add(name=part, number=number, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    field.type_name = f".{package}.{message.name}.{entry.name}"


_NUMA = {"NUMANode": ("int64 ID",), "TopologyInfo": ("repeated NUMANode nodes",)}

DEVICE_PLUGIN = _messages(
    "v1beta1",
    {
        **_NUMA,
        "Empty": (),
        "DevicePluginOptions": ("bool pre_start_required", "bool get_preferred_allocation_available"),
        "RegisterRequest": (
            "string version",
            "string endpoint",
            "string resource_name",
            "DevicePluginOptions options",
        ),
        "Device": ("string ID", "string health", "TopologyInfo topology"),
        "ListAndWatchResponse": ("repeated Device devices",),
        "ContainerPreferredAllocationRequest": (
            "repeated string available_deviceIDs",
            "repeated string must_include_deviceIDs",
            "int32 allocation_size",
        ),
        "PreferredAllocationRequest": ("repeated ContainerPreferredAllocationRequest container_requests",),
        "ContainerPreferredAllocationResponse": ("repeated string deviceIDs",),
        "PreferredAllocationResponse": ("repeated ContainerPreferredAllocationResponse container_responses",),
        "ContainerAllocateRequest": ("repeated string devices_ids",),
        "AllocateRequest": ("repeated ContainerAllocateRequest container_requests",),
        "Mount": ("string container_path", "string host_path", "bool read_only"),
        "DeviceSpec": ("string container_path", "string host_path", "string permissions"),
        "CDIDevice": ("string name",),
        "ContainerAllocateResponse": (
            "map envs",
            "repeated Mount mounts",
            "repeated DeviceSpec devices",
            "map annotations",
            "repeated CDIDevice cdi_devices",
        ),
        "AllocateResponse": ("repeated ContainerAllocateResponse container_responses",),
        "PreStartContainerRequest": ("repeated string devices_ids",),
        "PreStartContainerResponse": (),
    },
)
"""The package `v1beta1`: device plugins, and their registration."""

POD_RESOURCES = _messages(
    "v1",
    {
        **_NUMA,
        "ListPodResourcesRequest": (),
        "ListPodResourcesResponse": ("repeated PodResources pod_resources",),
        "AllocatableResourcesRequest": (),
        "AllocatableResourcesResponse": (
            "repeated ContainerDevices devices",
            "repeated int64 cpu_ids",
            "repeated ContainerMemory memory",
        ),
        "PodResources": ("string name", "string namespace", "repeated ContainerResources containers"),
        "ContainerResources": (
            "string name",
            "repeated ContainerDevices devices",
            "repeated int64 cpu_ids",
            "repeated ContainerMemory memory",
        ),
        "ContainerMemory": ("string memory_type", "uint64 size", "TopologyInfo topology"),
        "ContainerDevices": ("string resource_name", "repeated string device_ids", "TopologyInfo topology"),
    },
)
"""The package `v1`: the devices that the kubelet has given to pods. Unknown fields of newer kubelets are skipped."""
