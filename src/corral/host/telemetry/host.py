"""The host's own resources: name, CPUs and memory, and the NUMA nodes of its devices."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.numa import read_cpu_list
from corral.core.model.devices.version_labels import VERSION_LABELS

NUMA_NODES = Path("/sys/devices/system/node")
PCI_DEVICES = Path("/sys/bus/pci/devices")
_CGROUP_MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_MIB = 1024 * 1024


def host_node(
    devices: tuple[Device, ...] = (),
    *,
    labels: Mapping[str, str] | None = None,
    driver_version: str | None = None,
    cuda_version: tuple[int, int] | None = None,
) -> Node:
    """Return this host as a node: the CPUs this process may run on, in milli-CPU, and the memory it may use, in MiB.

    Its labels are `labels` and those of its versions (`version_labels`).
    """
    versions = version_labels(driver_version, cuda_version)
    return Node(
        name=platform.node() or "localhost",
        devices=devices,
        cpu_milli=1000 * len(os.sched_getaffinity(0)),
        memory_mib=_memory_mib(),
        labels=tuple(sorted({**(labels or {}), **versions}.items())),
        driver_version=driver_version,
        cuda_version=cuda_version,
    )


def version_labels(driver_version: str | None, cuda_version: tuple[int, int] | None) -> dict[str, str]:
    """Return the labels for the known versions."""
    major, minor = (None, None) if cuda_version is None else map(str, cuda_version)
    versions = zip(VERSION_LABELS, (driver_version, major, minor), strict=True)
    return {label: version for label, version in versions if version}


def numa_node_of(pci_bus_id: str | None, pci_devices: Path = PCI_DEVICES) -> int | None:
    """Return the NUMA node of a PCI device, None if the kernel knows none.

    The driver writes the PCI domain with eight digits ("00000000:41:00.0"), the kernel with four.
    """
    if pci_bus_id is None:
        return None
    domain, _, address = pci_bus_id.lower().partition(":")
    try:
        number = int((pci_devices / f"{domain[-4:]}:{address}" / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return number if number >= 0 else None


def numa_cpus(tree: Path = NUMA_NODES) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the CPUs of each NUMA node that this process may run on (`numactl --hardware` shows all), by its number.

    Nodes without such CPUs are left out; () if the kernel reports none.
    """
    allowed = os.sched_getaffinity(0)
    found = []
    for number, path in sorted((int(path.name[4:]), path) for path in tree.glob("node[0-9]*")):
        try:
            cpus = read_cpu_list((path / "cpulist").read_text())
        except (OSError, ValueError):
            continue
        if mine := tuple(cpu for cpu in cpus if cpu in allowed):
            found.append((number, mine))
    return tuple(found)


def _memory_mib() -> int:
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        total_mib = next(int(line.split()[1]) // 1024 for line in meminfo if line.startswith("MemTotal:"))
    for path in _CGROUP_MEMORY_LIMITS:
        try:
            limit = path.read_text().strip()
        except OSError:
            continue
        if limit.isdigit():
            total_mib = min(total_mib, int(limit) // _MIB)
    return total_mib
