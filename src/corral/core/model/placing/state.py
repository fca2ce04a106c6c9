"""The free amounts of a node: the state that `fit` tests, computed from a view."""

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
    """A device in a node's state: its properties, and its free amounts.

    Attributes:
        free_milli: share not allocated.
        free_mib: memory not granted, None if the device's memory is not known.
        blocked: the state that keeps it from being allocated, None if there is none. Some requests accept some states
            (`corral.core.model.placing.fit.accepts`).
        left_mib: memory that is really free on a device that processes outside Corral use, None if there are none.
        means: how jobs share it.
        profile: the profile of a hardware slice, None for a device.
        slice_milli: the part of its device that a slice counts as, None for a device.
        replica: whether a job that has it whole still shares the device behind it.
        vendor: the device's vendor.
        slots: the equal parts that its MPS daemon makes of it; None if parts differ.
        one_user: whether its jobs must belong to one user.
        tenant: those whom it serves while there are jobs: one user, or the packable jobs that share it; None is anyone.
        power_mw: its power limit, None if unknown.
        settable_power_mw: the least and the greatest power limit that a job may set, None if it can set none.
        offered_as: the names of resources by which its cluster gives it to pods.
        taken_milli, taken_mib: the share and the memory that pods outside Corral have. They are not free, also once all
            jobs have ended.
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
    slots: int | None = None
    power_mw: int | None = None
    settable_power_mw: tuple[int, int] | None = None
    taken_milli: int = 0
    taken_mib: int = 0
    offered_as: tuple[str, ...] = ()

    @property
    def open_milli(self) -> int:
        """The share that jobs can have together."""
        return MILLI_PER_DEVICE - self.taken_milli


class NodeState(NamedTuple):
    """All that `fit` depends on. `cpu_milli`, `memory_mib` and `disk_mib` are free amounts of the host.

    Nothing fits unless the `status` is READY. `members_left` is how many more members the node takes, None is no limit.
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
    """The slot of a device with these allocated amounts. A device without a sample counts as unreadable."""
    blocked: DeviceState | None = DeviceState.UNREADABLE
    left_mib = None
    if condition is not None:
        state = condition.state()
        lent = state in (DeviceState.STALE, DeviceState.IN_USE) and condition.lendable
        blocked = None if state is DeviceState.FREE or lent else state
        if lent and condition.suspect:
            blocked = DeviceState.SUSPECT
        left_mib = condition.memory_free_mib if condition.strangers else None
    total_mib = device.memory_mib if left_mib is None else left_mib
    taken_milli, taken_mib, over = _taken(device, condition, allocated_milli, allocated_mib, total_mib)
    if over and blocked is None:
        blocked = DeviceState.IN_USE
    return Slot(
        model=device.model,
        memory_mib=device.memory_mib if left_mib is None or blocked else left_mib,
        compute=device.compute_capability,
        free_milli=MILLI_PER_DEVICE - allocated_milli - taken_milli,
        free_mib=None if total_mib is None else total_mib - allocated_mib - taken_mib,
        blocked=blocked,
        left_mib=left_mib,
        means=device.means,
        profile=device.mig_profile,
        one_user=device.one_user,
        tenant=tenant,
        slice_milli=device.slice_milli,
        replica=device.replica,
        vendor=device.vendor,
        slots=device.clients.slots,
        power_mw=device.power_limit_mw,
        settable_power_mw=device.settable_power_mw,
        taken_milli=taken_milli,
        taken_mib=taken_mib,
        offered_as=device.offered_as,
    )


def _taken(
    device: Device,
    condition: DeviceCondition | None,
    allocated_milli: int,
    allocated_mib: int,
    total_mib: int | None,
) -> tuple[int, int, bool]:
    """The share and the memory that pods outside Corral have, and whether more is given away than the device has.

    No amount is more than what jobs have left: then the device is closed, and no job is evicted for room on it.
    """
    if condition is None or not condition.parts:
        return 0, 0, False
    milli = sum(part.share_milli for part in condition.parts)
    mib = sum(part.mib_of(device.memory_mib) for part in condition.parts)
    left_milli = max(0, MILLI_PER_DEVICE - allocated_milli)
    left_mib = mib if total_mib is None else max(0, total_mib - allocated_mib)
    return min(milli, left_milli), min(mib, left_mib), milli > left_milli or mib > left_mib


def node_state(view: View, name: str, *, only: Collection[str] | None = None) -> NodeState:
    """The state of a node in a view, computed anew: the slow reference that faster computations must equal.

    With `only`, the node has just the slots of these devices (UUIDs), in index order.
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
    """The members of jobs that have an allocation on the node."""
    residents = (view.allocations[allocation_id] for allocation_id in view.residents.get(name, ()))
    return [member for one in residents for member in one.placement.members if member.node == name]


HostAmounts = tuple[int, int, int, int | None]
"""The free amounts of a host: milli-CPU, MiB of memory, MiB of disk, members."""


def with_amounts(state: NodeState, slots: tuple[Slot, ...], host: HostAmounts) -> NodeState:
    """The state with other free amounts. Much faster than `_replace`, because every step of a search calls it."""
    # A search makes very many states: a call of the generated `NodeState.__new__` would be noticeable.
    _, _, _, labels, driver, cuda, status, _, taints, _ = state
    cpu_milli, memory_mib, disk_mib, members_left = host
    fields = (slots, cpu_milli, memory_mib, labels, driver, cuda, status, disk_mib, taints, members_left)
    return tuple.__new__(NodeState, fields)
