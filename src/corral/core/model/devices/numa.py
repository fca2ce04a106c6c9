"""NUMA binding: the CPUs and the memory of a host that are nearest to a member's devices."""

from dataclasses import dataclass

from corral.core.model.devices.device import Node
from corral.core.model.placing.allocation import Member
from corral.core.model.units import MILLI_PER_DEVICE


@dataclass(frozen=True, slots=True)
class NumaBinding:
    """The binding of a member's processes: these CPUs, and memory of these NUMA nodes first. Both are sorted."""

    nodes: tuple[int, ...]
    cpus: tuple[int, ...]


def numa_binding(member: Member, node: Node | None) -> NumaBinding | None:
    """The NUMA nodes of a member that has whole devices, and their CPUs.

    None if the member is not bound: it has no device or only a part of one, or the NUMA node of a device is not known.
    Or the site binds nothing there, or the member asked for more CPUs than these NUMA nodes have.
    """
    if node is None or not node.numa_cpus or not member.grants:
        return None
    devices = {device.uuid: device for device in node.devices}
    cpus_of = dict(node.numa_cpus)
    near: set[int] = set()
    for grant in member.grants:
        device = devices.get(grant.uuid)
        if device is None or device.mig_profile is not None or grant.share_milli != MILLI_PER_DEVICE:
            return None
        if device.numa_node not in cpus_of:
            return None
        near.add(device.numa_node)
    cpus = sorted({cpu for number in near for cpu in cpus_of[number]})
    if member.cpu_milli > 1000 * len(cpus):
        return None
    return NumaBinding(tuple(sorted(near)), tuple(cpus))


def cpu_list(cpus: tuple[int, ...]) -> str:
    """The numbers in the kernel's notation: 0-3,8. `taskset -pc PID` shows those of a process."""
    ranges: list[list[int]] = []
    for cpu in cpus:
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def read_cpu_list(text: str) -> tuple[int, ...]:
    """The numbers in the kernel's notation of CPUs, such as 0-3,8: the inverse of `cpu_list`. Raises ValueError."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cpus))
