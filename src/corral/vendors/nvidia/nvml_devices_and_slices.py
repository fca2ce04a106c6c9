"""Reads the properties of devices from NVML that do not change from second to second."""

from collections.abc import Mapping
from typing import Any

import pynvml

from corral.core.model.devices.device import Device, Link, Partition
from corral.vendors.nvidia.device_files import gpu_files, slice_files
from corral.vendors.nvidia.nvml_calls import ask

_MIB = 1024 * 1024
Handle = Any


def read_versions() -> tuple[str | None, tuple[int, int] | None]:
    """The driver's version and the newest CUDA version it runs, (major, minor)."""
    cuda = ask(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    return ask(pynvml.nvmlSystemGetDriverVersion), None if cuda is None else (cuda // 1000, cuda % 1000 // 10)


def read_device(handle: Handle, uuid: str, index: int) -> Device:
    """A device's inventory without its links, and without facts that only the host knows."""
    memory_mib = read_memory_mib(handle)
    pci = ask(pynvml.nvmlDeviceGetPciInfo_v3, handle)
    pci_bus_id = None if pci is None else _text(pci.busId)
    mig_mode = ask(pynvml.nvmlDeviceGetMigMode, handle)
    mig_enabled = None if mig_mode is None else mig_mode[0] == 1
    ecc_mode = ask(pynvml.nvmlDeviceGetEccMode, handle)
    persistence = ask(pynvml.nvmlDeviceGetPersistenceMode, handle)
    minor = ask(pynvml.nvmlDeviceGetMinorNumber, handle)
    return Device(
        uuid=uuid,
        index=index,
        model=ask(pynvml.nvmlDeviceGetName, handle) or "unknown",
        memory_mib=memory_mib[0] if memory_mib else None,
        compute_capability=ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle),
        pci_bus_id=pci_bus_id,
        mig_enabled=mig_enabled,
        partitions=_read_partitions(handle, minor) if mig_enabled else (),
        power_limit_mw=ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle),
        power_range_mw=_read_power_range_mw(handle),
        persistence=None if persistence is None else persistence == 1,
        ecc=None if ecc_mode is None else ecc_mode[0] == 1,
        files=gpu_files(minor),
    )


def _read_power_range_mw(handle: Handle) -> tuple[int, int] | None:
    """The least and the greatest power limit that the driver accepts; None if it names none."""
    found = ask(pynvml.nvmlDeviceGetPowerManagementLimitConstraints, handle)
    return None if found is None else (int(found[0]), int(found[1]))


def read_memory_mib(handle: Handle) -> tuple[int, int, int] | None:
    """(total, used, free) MiB. If the driver counts reserved memory separately, used + free is below total."""
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    memory = memory or ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return None if memory is None else (memory.total // _MIB, memory.used // _MIB, memory.free // _MIB)


def read_links(handles: Mapping[str, Handle]) -> dict[str, tuple[Link, ...]]:
    """The links of each device to the others: NVLinks, direct or through a switch, else the kind of their PCI path."""
    by_bus = {}
    for uuid, handle in handles.items():
        pci = ask(pynvml.nvmlDeviceGetPciInfo_v3, handle)
        if pci is not None:
            by_bus[_text(pci.busId).lower()] = uuid
    lanes = {uuid: _read_nvlinks(handle, by_bus) for uuid, handle in handles.items()}
    links = {}
    for uuid, handle in handles.items():
        found = []
        for peer, peer_handle in handles.items():
            if peer == uuid:
                continue
            count = lanes[uuid].get(peer, 0) or min(lanes[uuid].get("", 0), lanes[peer].get("", 0))
            kind = "nvlink" if count else _pci_kind(handle, peer_handle)
            if kind is not None:
                found.append(Link(peer, kind, count or 1))
        links[uuid] = tuple(found)
    return links


def _read_nvlinks(handle: Handle, by_bus: Mapping[str, str]) -> dict[str, int]:
    """The number of active NVLinks by the peer's UUID. Links that end in a switch are under ""."""
    lanes: dict[str, int] = {}
    for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
        active = ask(pynvml.nvmlDeviceGetNvLinkState, handle, number)
        if active is None:
            break
        if not active:
            continue
        remote = ask(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number)
        peer = by_bus.get(_text(remote.busId).lower()) if remote is not None else None
        if peer is None:
            kind = ask(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number)
            peer = "" if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH else None
        if peer is not None:
            lanes[peer] = lanes.get(peer, 0) + 1
    return lanes


def _pci_kind(handle: Handle, peer: Handle) -> str | None:
    level = ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, handle, peer)
    if level is None:
        return None
    return "pcie" if level <= pynvml.NVML_TOPOLOGY_HOSTBRIDGE else "system"


def _read_partitions(handle: Handle, minor: int | None) -> tuple[Partition, ...]:
    partitions = []
    for number in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        try:
            part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except pynvml.NVMLError:
            continue
        uuid = ask(pynvml.nvmlDeviceGetUUID, part)
        if uuid is not None:
            _, _, profile = (ask(pynvml.nvmlDeviceGetName, part) or "").rpartition("MIG ")
            memory_mib = read_memory_mib(part)
            partitions.append(
                Partition(uuid, profile, memory_mib[0] if memory_mib else None, _slice_files(part, minor))
            )
    return tuple(partitions)


def _slice_files(part: Handle, minor: int | None) -> tuple[str, ...]:
    instances = ask(pynvml.nvmlDeviceGetGpuInstanceId, part), ask(pynvml.nvmlDeviceGetComputeInstanceId, part)
    return () if None in instances else slice_files(minor, *instances)


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
