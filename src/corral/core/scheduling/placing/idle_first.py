"""Places by idle devices: the ranking of jobs whose rules ask for it, such as model services."""

from statistics import fmean
from typing import NamedTuple

from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.placement_rules import IdleFirst
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.placing.node_by_node import choose
from corral.core.scheduling.policy import Prefer
from corral.core.scheduling.state.draft import Draft, PlacementRequest


class NodeIdle(NamedTuple):
    """The devices of one node in figures.

    Attributes:
        idle: the devices that a job can have for itself now.
        utilization_pct, memory_pct: the means over the devices with readings; 0.0 if `metered` is false.
        metered: whether any device has a reading.
        untouched: whether nothing has any of its devices.
    """

    idle: int
    utilization_pct: float
    memory_pct: float
    metered: bool
    untouched: bool


def place_on_idle(draft: Draft, wanted: PlacementRequest) -> Placement | None:
    """A placement on the first node by the request's ranking that has enough idle devices.

    None if the request has no such ranking, or if no node has enough. The request's preferences come before it.
    """
    request = wanted.request
    rule = None if request.rules is None else request.rules.idle_first
    if rule is None or not request.devices:
        return None
    ranked = ranked_by_idle(draft, request.devices, rule)
    ranked.sort(key=lambda name: -draft.preference(request, name))
    singly = request.gang_size == 1 and not wanted.speeds and not wanted.lending_pools
    for among in [(name,) for name in ranked] if singly else [tuple(ranked)]:
        found = choose(draft, wanted, Prefer.FIRST, among=among)
        if isinstance(found, Placement):
            return found
    return None


def ranked_by_idle(draft: Draft, devices: int, rule: IdleFirst) -> list[str]:
    """The nodes with so many idle devices, the best first."""
    found = {name: idle_on(draft, name, rule) for name in draft.capacity.names}
    able = {name: one for name, one in found.items() if one.idle >= devices}
    if rule.keeps_whole:
        return sorted(
            able,
            key=lambda name: (
                able[name].untouched and able[name].idle > devices,
                able[name].idle,
                able[name].utilization_pct,
                name,
            ),
        )
    return sorted(able, key=lambda name: (-able[name].idle, able[name].utilization_pct, name))


def idle_on(draft: Draft, name: str, rule: IdleFirst) -> NodeIdle:
    """The idle devices of a node.

    Readings count for the node as a whole, because its cluster chooses among its devices: of five free devices and
    three readings below the thresholds three are idle. Readings that only devices in use have say nothing of free ones.
    """
    conditions = draft.capacity.view.conditions
    free, free_are_read, uses = 0, False, []
    slots = draft.free(name).slots
    for device, slot in zip(draft.capacity.node(name).devices, slots, strict=True):
        is_free = slot.blocked is None and slot.free_milli == MILLI_PER_DEVICE
        condition = conditions.get(device.uuid)
        free += is_free
        if condition is not None and condition.use is not None:
            uses.append(condition.use)
            free_are_read = free_are_read or is_free
    idle = free
    if free_are_read:
        below = sum(one.utilization_pct < rule.utilization_pct and one.memory_pct < rule.memory_pct for one in uses)
        idle = min(free, below)
    if not uses:
        return NodeIdle(idle, 0.0, 0.0, False, free == len(slots))
    means = fmean(one.utilization_pct for one in uses), fmean(one.memory_pct for one in uses)
    return NodeIdle(idle, *means, True, free == len(slots))
