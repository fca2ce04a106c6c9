"""The free capacity of every node, kept current by deltas instead of being computed anew from each view."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from corral.core.model.devices.device import Device, Node, availability_score
from corral.core.model.fact import (
    AllocationEnded,
    AllocationMade,
    ConditionObserved,
    Delta,
    DeviceCordoned,
    DeviceHealthChanged,
    DevicesExchanged,
    DeviceUncordoned,
    JobChanged,
    JobSubmitted,
    NodeCordoned,
    NodeDraining,
    NodeObserved,
    NodeRemoved,
    NodeUncordoned,
    SilenceObserved,
    SiteArranged,
    UsersBarred,
)
from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Allocation, Member
from corral.core.model.placing.placement_rules import Selector, meets
from corral.core.model.placing.state import NodeState, Slot, slot_of
from corral.core.model.version import version_tuple
from corral.core.model.view import View, ViewDraft

_NONE: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Host:
    """A node with the current state of its slots. `state` is None if it must be computed again."""

    node: Node
    slots: list[Slot]
    scores: list[float]
    state: NodeState | None = None


@dataclass(slots=True)
class _Used:
    """The allocated amounts of a device (milli-GPU and MiB) or of a host (milli-CPU, MiB, MiB of its disk, members).

    `tenants` has the milli-GPU by user, on a device that serves one user at a time.
    """

    milli: int = 0
    mib: int = 0
    disk_mib: int = 0
    members: int = 0
    tenants: dict[str, int] = field(default_factory=dict)

    def serve(self, tenant: str, milli: int) -> None:
        """Add milli-GPU to a tenant; a negative number releases them."""
        self.tenants[tenant] = self.tenants.get(tenant, 0) + milli
        if not self.tenants[tenant]:
            del self.tenants[tenant]


@dataclass(slots=True)
class NodeChanges:
    """The names of nodes whose state changed, in order. A reader remembers its position and asks for later changes.

    At least the newest `limit` names are kept.
    """

    limit: int = 8192
    _names: list[str] = field(default_factory=list)
    _start: int = 0

    @property
    def place(self) -> int:
        """The position after the newest change."""
        return self._start + len(self._names)

    def add(self, name: str) -> None:
        if len(self._names) >= 2 * self.limit:
            del self._names[: self.limit]
            self._start += self.limit
        self._names.append(name)

    def since(self, place: int) -> list[str] | None:
        """The nodes that changed after the position, with possible duplicates; None if the names are no longer kept."""
        return None if place < self._start else self._names[place - self._start :]


@dataclass(slots=True)
class Capacity:
    """Free capacity by node. Equal views give equal capacities, by whatever deltas they came about.

    `changes` lists the nodes whose state changed. `repelling` identifies everything that runs and keeps others off its
    node, by ids that only this class reads. While it is empty, requests need no test against running jobs.
    """

    source: ViewDraft
    changes: NodeChanges = field(default_factory=NodeChanges)
    repelling: set[str] = field(default_factory=set)
    _allocations: dict[str, Allocation] = field(default_factory=dict)
    _on: dict[str, dict[str, Allocation]] = field(default_factory=dict)
    _hosts: dict[str, _Host] = field(default_factory=dict)
    _where: dict[str, tuple[str, int]] = field(default_factory=dict)
    _devices: dict[str, _Used] = field(default_factory=lambda: defaultdict(_Used))
    _machines: dict[str, _Used] = field(default_factory=lambda: defaultdict(_Used))
    _slots_in_pools: dict[tuple[str, tuple[str, ...]], frozenset[int]] = field(default_factory=dict)
    _order: tuple[str, ...] | None = None
    _repelling_all: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for allocation in self.view.allocations.values():
            self._allocations[allocation.id] = allocation
            self._count(allocation, 1)
        for node in self.view.nodes.values():
            self._observe(node)

    @property
    def view(self) -> View:
        """The view to which this capacity belongs."""
        return self.source.view

    @property
    def names(self) -> tuple[str, ...]:
        """Every node name, in the order that breaks ties between nodes."""
        if self._order is None:
            self._order = tuple(sorted(self._hosts))
        return self._order

    def state(self, name: str) -> NodeState:
        """The state of a node, equal to `corral.core.model.placing.state.node_state` for the view."""
        host = self._hosts[name]
        if host.state is None:
            used = self._machines.get(name) or _Used()
            host.state = NodeState(
                slots=tuple(host.slots),
                cpu_milli=host.node.cpu_milli - host.node.taken.cpu_milli - used.milli,
                memory_mib=host.node.memory_mib - host.node.taken.memory_mib - used.mib,
                labels=host.node.labels,
                driver=version_tuple(host.node.driver_version),
                cuda=host.node.cuda_version,
                status=self.view.status(name),
                taints=host.node.taints,
                members_left=None if host.node.most_members is None else host.node.most_members - used.members,
                disk_mib=host.node.disk_mib - host.node.taken.disk_mib - used.disk_mib,
            )
        return host.state

    def node(self, name: str) -> Node:
        """The node of that name."""
        return self._hosts[name].node

    def usable(self, name: str, request: Request) -> tuple[int, ...] | None:
        """The slots of the node whose devices the request may use; None if it may use every device of the node."""
        if not request.tells_devices_apart:
            return None
        devices = self._hosts[name].node.devices
        found = tuple(i for i, device in enumerate(devices) if request.may_use(device))
        return None if len(found) == len(devices) else found

    def slot(self, uuid: str) -> tuple[str, int] | None:
        """The node and slot of a device; None if it is not in the cluster now."""
        return self._where.get(uuid)

    def slots_of(self, member: Member) -> tuple[int, ...]:
        """The slots of the member's devices that are in the cluster now, in the order of its grants."""
        if not member.grants:
            return ()
        found = (self._where.get(grant.uuid) for grant in member.grants)
        return tuple(place[1] for place in found if place is not None)

    def slots_in_pools(self, name: str, pools: tuple[str, ...]) -> frozenset[int]:
        """The slots of the node whose devices belong to one of these pools."""
        if not pools:
            return _NONE
        found = self._slots_in_pools.get((name, pools))
        if found is None:
            uuids = {uuid for pool in pools for uuid in self.view.set_apart[pool].get(name, ())}
            devices = self._hosts[name].node.devices
            found = frozenset(i for i, device in enumerate(devices) if device.uuid in uuids)
            self._slots_in_pools[name, pools] = found
        return found

    def repels(self, *, tagged: bool) -> bool:
        """Whether anything that runs may keep others off its node: others with tags if `tagged`, else all others."""
        return bool(self.repelling if tagged else self._repelling_all)

    def allocations_on(self, name: str) -> tuple[Allocation, ...]:
        """The allocations on the node, in the order of their ids."""
        here = self._on.get(name, {})
        return tuple(here[allocation_id] for allocation_id in sorted(here))

    def scores(self, name: str) -> list[float]:
        """The availability score of each slot's device, from its last sample."""
        return self._hosts[name].scores

    def follow(self, delta: Delta) -> None:
        """Apply one delta that the view has already applied."""
        match delta:
            case JobSubmitted() | JobChanged():
                return  # these are the most frequent: this saves comparing them with all other cases
            case AllocationMade(allocation=allocation):
                self._allocations[allocation.id] = allocation
                self._count(allocation, 1)
            case AllocationEnded(allocation_id=allocation_id):
                self._forget_repelling(allocation_id)
                self._count(self._allocations.pop(allocation_id), -1)
            case DevicesExchanged(allocation=allocation):
                self._count(self._allocations[allocation.id], -1)
                self._allocations[allocation.id] = allocation
                self._count(allocation, 1)
            case ConditionObserved(condition=condition):
                self._renew(condition.uuid)
            case DeviceCordoned(uuid=uuid) | DeviceUncordoned(uuid=uuid) | DeviceHealthChanged(uuid=uuid):
                self._renew(uuid)
            case (
                SilenceObserved(node=name)
                | UsersBarred(node=name)
                | NodeCordoned(node=name)
                | NodeDraining(node=name)
                | NodeUncordoned(node=name)
            ):
                self._changed(name)
            case NodeObserved(node=node):
                self._observe(node)
            case NodeRemoved(name=name):
                self._slots_in_pools.clear()
                self._forget(name)
            case SiteArranged():
                self._slots_in_pools.clear()

    def _observe(self, node: Node) -> None:
        self._slots_in_pools.clear()
        self._forget_repelling(_others_of(node.name))
        before = self._hosts.get(node.name)
        alike = before is not None and _hardware(before.node) == _hardware(node)
        if not alike:
            self._forget(node.name)
            self._order = None
        self._hosts[node.name] = _Host(
            node, [self._read(device) for device in node.devices], [self._score(device) for device in node.devices]
        )
        if alike:
            self.changes.add(node.name)
        for index, device in enumerate(node.devices):
            self._where[device.uuid] = (node.name, index)
        self._note_repelling(_others_of(node.name), [selector for one in node.others for selector in one.apart])

    def _forget(self, name: str) -> None:
        host = self._hosts.pop(name, None)
        self._forget_repelling(_others_of(name))
        if host is not None:
            self._order = None
            for device in host.node.devices:
                self._where.pop(device.uuid, None)

    def _count(self, allocation: Allocation, sign: int) -> None:
        job = self.view.jobs.get(allocation.job_id) if sign > 0 else None
        if job is not None and job.spec.request.rules is not None:
            self._note_repelling(allocation.id, job.spec.request.rules.apart)
        for member in allocation.placement.members:
            if sign > 0:
                self._on.setdefault(member.node, {})[allocation.id] = allocation
            else:
                self._on[member.node].pop(allocation.id, None)
            machine = self._machines[member.node]
            machine.milli += sign * member.cpu_milli
            machine.mib += sign * member.host_memory_mib
            machine.disk_mib += sign * member.disk_mib
            machine.members += sign
            self._changed(member.node)
            for grant in member.grants:
                used = self._devices[grant.uuid]
                used.milli += sign * grant.share_milli
                used.mib += sign * (grant.memory_mib or 0)
                if grant.tenant is not None:
                    used.serve(grant.tenant, sign * grant.share_milli)
                self._renew(grant.uuid)

    def _note_repelling(self, whose: str, apart: Sequence[Selector]) -> None:
        if apart:
            self.repelling.add(whose)
            if any(meets(selector, {}) for selector in apart):
                self._repelling_all.add(whose)

    def _forget_repelling(self, whose: str) -> None:
        if self.repelling:
            self.repelling.discard(whose)
            self._repelling_all.discard(whose)

    def _changed(self, name: str) -> None:
        host = self._hosts.get(name)
        if host is not None and host.state is not None:
            host.state = None
            self.changes.add(name)

    def _renew(self, uuid: str) -> None:
        place = self._where.get(uuid)
        if place is not None:
            host = self._hosts[place[0]]
            host.scores[place[1]] = self._score(host.node.devices[place[1]])
            slot = self._read(host.node.devices[place[1]])
            if slot != host.slots[place[1]]:
                host.slots[place[1]] = slot
                self._changed(place[0])

    def _read(self, device: Device) -> Slot:
        used = self._devices.get(device.uuid) or _Used()
        tenant = next(iter(used.tenants), None)
        return slot_of(device, self.view.conditions.get(device.uuid), used.milli, used.mib, tenant)

    def _score(self, device: Device) -> float:
        condition = self.view.conditions.get(device.uuid)
        if condition is None:
            return 0.0
        weight = self.view.availability_memory_weight
        return availability_score(condition.memory_free_mib, device.memory_mib, condition.utilization_pct, weight)


def _others_of(node: str) -> str:
    # No id of an allocation has a colon.
    return f"node:{node}"


def _hardware(node: Node) -> tuple[tuple[Device, ...], int, int, int]:
    return node.devices, node.cpu_milli, node.memory_mib, node.disk_mib
