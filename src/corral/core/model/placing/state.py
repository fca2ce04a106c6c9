"""What is left of a node: the state that a fit is asked of, read from a view."""

from collections.abc import Collection
from typing import NamedTuple

from corral.core.model.devices.device import FIRST_VENDOR, Device, DeviceCondition, DeviceState, NodeStatus
from corral.core.model.devices.means import Means
from corral.core.model.placing.allocation import Member
from corral.core.model.placing.placement_rules import Taint
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.version import version_tuple
from corral.core.model.view import View


class Slot(NamedTuple):
    """A device's place in a node: what the device is, and what is left of it.

    Attributes:
        free_milli: share not allocated.
        free_mib: memory not granted, None when the device's memory is not known.
        blocked: the state that keeps it from being allocated at all, None when nothing does.
        left_mib: memory really free on a device that strangers use, None when it is not lent out.
        means: how jobs meet on it.
        profile: of a hardware slice, None for a device.
        slice_milli: what a slice counts as of its device, None for a device.
        replica: whether others meet whoever has it whole, on the device behind it.
        vendor: the device's maker.
        one_user, tenant: whether its jobs must be one user's, and whose they are while there are any.
    """

    model: str
    memory_mib: int | None
    compute: tuple[int, int] | None
    free_milli: int
    free_mib: int | None
    blocked: DeviceState | None = None
    left_mib: int | None = None
    means: Means = Means.TIMESLICE
    profile: str | None = None
    one_user: bool = False
    tenant: str | None = None
    slice_milli: int | None = None
    replica: bool = False
    vendor: str = FIRST_VENDOR


class NodeState(NamedTuple):
    """All that a fit depends on. `cpu_milli`, `memory_mib` and `disk_mib` are what is free of the host.

    Nothing fits unless the `status` is READY. `members_left` is how many more members it takes, None is any number.
    """

    slots: tuple[Slot, ...]
    cpu_milli: int
    memory_mib: int
    labels: tuple[tuple[str, str], ...] = ()
    driver: tuple[int, ...] | None = None
    cuda: tuple[int, int] | None = None
    status: NodeStatus = NodeStatus.READY
    disk_mib: int = 0
    taints: tuple[Taint, ...] = ()
    members_left: int | None = None


def slot_of(
    device: Device,
    condition: DeviceCondition | None,
    allocated_milli: int,
    allocated_mib: int,
    tenant: str | None = None,
) -> Slot:
    """A device as a slot, with so much of it allocated; one that was never sampled counts as unreadable."""
    blocked: DeviceState | None = DeviceState.UNREADABLE
    left_mib = None
    if condition is not None:
        state = condition.state()
        lent = state in (DeviceState.STALE, DeviceState.IN_USE) and condition.lendable
        blocked = None if state is DeviceState.FREE or lent else state
        left_mib = condition.memory_free_mib if condition.strangers else None
    total_mib = device.memory_mib if left_mib is None else left_mib
    return Slot(
        model=device.model,
        memory_mib=device.memory_mib if left_mib is None or blocked else left_mib,
        compute=device.compute_capability,
        free_milli=MILLI_PER_DEVICE - allocated_milli,
        free_mib=None if total_mib is None else total_mib - allocated_mib,
        blocked=blocked,
        left_mib=left_mib,
        means=device.means,
        profile=device.mig_profile,
        one_user=device.one_user,
        tenant=tenant if device.one_user else None,
        slice_milli=device.slice_milli,
        replica=device.replica,
        vendor=device.vendor,
    )


def node_state(view: View, name: str, *, only: Collection[str] | None = None) -> NodeState:
    """The state of a node in a view, computed afresh: the slow and obvious reading that faster ones must equal.

    With `only`, the node has no slots but those of these devices (UUIDs), in index order.
    """
    node = view.nodes[name]
    slots = [
        slot_of(
            device,
            view.conditions.get(device.uuid),
            view.allocated_milli(device.uuid),
            view.allocated_mib(device.uuid),
            view.tenant(device.uuid),
        )
        for device in node.devices
        if only is None or device.uuid in only
    ]
    members = members_on(view, name)
    return NodeState(
        slots=tuple(slots),
        cpu_milli=node.cpu_milli - node.taken.cpu_milli - sum(m.cpu_milli for m in members),
        memory_mib=node.memory_mib - node.taken.memory_mib - sum(m.host_memory_mib for m in members),
        labels=node.labels,
        driver=version_tuple(node.driver_version),
        cuda=node.cuda_version,
        status=view.status(name),
        taints=node.taints,
        members_left=None if node.most_members is None else node.most_members - len(members),
        disk_mib=node.disk_mib - node.taken.disk_mib - sum(m.disk_mib for m in members),
    )


def members_on(view: View, name: str) -> list[Member]:
    """The members of jobs that have something of the node."""
    residents = (view.allocations[allocation_id] for allocation_id in view.residents.get(name, ()))
    return [member for one in residents for member in one.placement.members if member.node == name]


HostAmounts = tuple[int, int, int, int | None]
"""What is free of a host: milli-CPU, MiB of memory, MiB of disk, members."""


def with_amounts(state: NodeState, slots: tuple[Slot, ...], host: HostAmounts) -> NodeState:
    """The state with other free amounts: much faster than `_replace`, and asked for at every step of a search."""
    # A search makes so many states that it is felt whether the generated `NodeState.__new__` is called on the way.
    _, _, _, labels, driver, cuda, status, _, taints, _ = state
    cpu_milli, memory_mib, disk_mib, members_left = host
    fields = (slots, cpu_milli, memory_mib, labels, driver, cuda, status, disk_mib, taints, members_left)
    return tuple.__new__(NodeState, fields)
