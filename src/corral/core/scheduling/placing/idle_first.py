"""Places by idle devices: the ranking of jobs whose rules ask for it, such as model services."""

from bisect import bisect_left, bisect_right, insort
from math import inf
from statistics import fmean
from typing import NamedTuple

from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.placement_rules import IdleFirst
from corral.core.model.placing.state import NodeState
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


_Key = tuple[float, float, str]
"""The sort key of a node: idle devices (negative unless the fewest come first), then the mean use, then the name."""


class IdleRanking:
    """All nodes of one draft by their idle devices. What the draft takes is followed."""

    def __init__(self, draft: Draft, rule: IdleFirst) -> None:
        self._draft = draft
        self._rule = rule
        self._states: dict[str, NodeState] = {}
        self._found: dict[str, NodeIdle] = {}
        for name in draft.capacity.names:
            self._look(name)
        self._order = sorted(map(self._key, self._found))

    def able(self, devices: int) -> list[str]:
        """The nodes with so many idle devices, the best first."""
        self._follow()
        if not self._rule.keeps_whole:
            return [name for _, _, name in self._order[: bisect_right(self._order, (-devices, inf, ""))]]
        names = [name for idle, _, name in self._order if idle >= devices]
        names.sort(key=lambda name: self._found[name].untouched and self._found[name].idle > devices)
        return names

    def _follow(self) -> None:
        for name, state in self._draft.changed.items():
            if state is not self._states[name]:
                del self._order[bisect_left(self._order, self._key(name))]
                self._look(name)
                insort(self._order, self._key(name))

    def _look(self, name: str) -> None:
        self._states[name] = self._draft.free(name)
        self._found[name] = idle_on(self._draft, name, self._rule)

    def _key(self, name: str) -> _Key:
        one = self._found[name]
        return (one.idle if self._rule.keeps_whole else -one.idle), one.utilization_pct, name


def place_on_idle(
    draft: Draft, wanted: PlacementRequest, known: dict[IdleFirst, IdleRanking] | None = None
) -> Placement | None:
    """A placement on the first node by the request's ranking that has enough idle devices.

    None if the request has no such ranking, or if no node has enough. The request's preferences come before it. `known`
    are rankings of the same draft that were made before; a new one is added.
    """
    request = wanted.request
    rule = None if request.rules is None else request.rules.idle_first
    if rule is None or not request.devices:
        return None
    ranking = None if known is None else known.get(rule)
    if ranking is None:
        ranking = IdleRanking(draft, rule)
        if known is not None:
            known[rule] = ranking
    able = _preferred_first(draft, request, ranking.able(request.devices))
    singly = request.gang_size == 1 and not wanted.speeds and not wanted.lending_pools
    for among in ((name,) for name in able) if singly else [tuple(able)]:
        found = choose(draft, wanted, Prefer.FIRST, among=among)
        if isinstance(found, Placement):
            return found
    return None


def _preferred_first(draft: Draft, request: Request, names: list[str]) -> list[str]:
    """The nodes with the request's preferences first; equals stay in their order."""
    rules = request.rules
    plain = not request.prefers and rules is not None and not (rules.preferred_nodes or rules.by_neighbours)
    if plain and not any(draft.capacity.node(name).taints for name in names):
        return names
    return sorted(names, key=lambda name: -draft.preference(request, name))


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
