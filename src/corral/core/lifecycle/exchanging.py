"""Launches have other devices than the ledger says: the exchange as facts. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from corral.core.model.devices.device import Device
from corral.core.model.fact import DevicesExchanged, Fact
from corral.core.model.placing.allocation import Allocation, GpuInfo
from corral.core.model.runs.launch import launch_id, member_of
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View


def exchange(view: View, targets: Mapping[str, Sequence[Device]], *, by: str, at: float) -> list[Fact] | None:
    """Return a fact for each launch that gets these devices in place of its own, in the order of their ids.

    None if a device would be given twice, in a share above the whole or to a whole and a share. Between two of the
    facts a device may have two holders, as when two launches swap: they belong into one commit. A launch that is not
    live, or has another number of devices, is left out.
    """
    changed: dict[str, Allocation] = {}
    facts: list[Fact] = []
    for launch, devices in sorted(targets.items()):
        allocation_id, rank = member_of(launch)
        allocation = changed.get(allocation_id) or view.allocations.get(allocation_id)
        if allocation is None or rank >= len(allocation.placement.members):
            continue
        if len(devices) != len(allocation.placement.members[rank].grants):
            continue
        changed[allocation_id] = after = _with_devices(allocation, rank, devices)
        facts.append(DevicesExchanged(after, rank, at=at, by=by))
    return None if _gives_twice(view, changed) else facts


def launches_on(view: View, node: str) -> list[tuple[str, Allocation, int]]:
    """Return the launches on a node, by their ids, each with its allocation and rank."""
    found = (
        (launch_id(allocation_id, rank), view.allocations[allocation_id], rank)
        for allocation_id in view.residents.get(node, ())
        for rank, member in enumerate(view.allocations[allocation_id].placement.members)
        if member.node == node
    )
    return sorted(found, key=lambda one: one[0])


def _with_devices(allocation: Allocation, rank: int, devices: Sequence[Device]) -> Allocation:
    members = list(allocation.placement.members)
    grants = tuple(
        replace(grant, uuid=device.uuid) for grant, device in zip(members[rank].grants, devices, strict=True)
    )
    before = sum(len(member.grants) for member in members[:rank])
    members[rank] = replace(members[rank], grants=grants)
    info = allocation.gpu_info
    return replace(
        allocation,
        placement=replace(allocation.placement, members=tuple(members)),
        gpu_info=None if info is None else _renamed(info, before, devices),
    )


def _renamed(info: GpuInfo, start: int, devices: Sequence[Device]) -> GpuInfo:
    """Return the record with the indices and models of these devices, the first of which is number `start`."""
    details, indices = list(info.details), list(info.indices)
    for place, device in enumerate(devices, start):
        if place < len(indices):
            indices[place] = device.index
        if place < len(details):
            details[place] = replace(details[place], index=device.index, name=device.model)
    return replace(info, indices=tuple(indices), details=tuple(details))


def _gives_twice(view: View, changed: Mapping[str, Allocation]) -> bool:
    """Return whether a device that changes hands would be given to more than it has."""
    milli: Counter[str] = Counter()
    touched = {uuid for allocation in changed.values() for uuid in allocation.placement.uuids}
    holders = {one for uuid in touched for one in view.holders.get(uuid, ())} | changed.keys()
    for allocation_id in holders:
        allocation = changed.get(allocation_id) or view.allocations[allocation_id]
        for grant in allocation.placement.grants:
            milli[grant.uuid] += grant.share_milli
    return any(milli[uuid] > MILLI_PER_DEVICE for uuid in touched)
