"""Places by a search of each node: the fastest that fits, among equals the fullest, and its most available devices."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from corral.core.model.devices.model_and_profile_match import model_matches
from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Member, Placement
from corral.core.model.placing.fit import Cause, Fit, Misfit, filled_from, grants_on, slots_with_room
from corral.core.model.placing.split import Strategy
from corral.core.model.placing.state import NodeState
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.policy import Prefer
from corral.core.scheduling.state.draft import Draft, PlacementRequest
from corral.core.scheduling.state.neighbours import member_resident

DeviceOrder = Callable[[str, Sequence[int]], Sequence[int]]
"""(node name, slots) -> the slots in the order in which to take them; equals keep their order."""

_WholeDevices = Callable[[str, Sequence[int], int], Sequence[int]]
"""(node name, slots of free devices, how many) -> the slots to take whole."""


def choose(
    draft: Draft,
    wanted: PlacementRequest,
    prefer: Prefer = Prefer.FULLEST,
    *,
    order: DeviceOrder | None = None,
    wholes: _WholeDevices | None = None,
    among: tuple[str, ...] | None = None,
) -> Placement | Misfit:
    """A placement of every member of the request, or the misfit of the nearest node. Does not change the draft.

    Members of a gang are placed one after another: each sees what earlier members took. `order` says which devices of
    a node are taken first; by default those with the least free. `wholes` chooses the whole devices of a request that
    fills devices; by default the most available. `among` are the nodes to search, None for all.
    """
    names, request = draft.capacity.names if among is None else among, wanted.request
    if request.gang_size == 1:
        found = _member(draft, wanted, names, prefer, order, wholes=wholes)
        return found if isinstance(found, Misfit) else Placement((found,))
    if not request.one_node:
        return _gang(draft, wanted, names, prefer, order)
    misfits = []
    if request.prefers or request.rules is not None:
        names = tuple(sorted(names, key=lambda name: -draft.preference(request, name)))
    for name in names:
        placed = _gang(draft, wanted, (name,), prefer, order)
        if isinstance(placed, Placement):
            return placed
        misfits.append(placed)
    return nearest_misfit(request, misfits)


def fits(draft: Draft, wanted: PlacementRequest, among: tuple[str, ...] | None = None) -> bool:
    """Whether `choose` finds a placement."""
    return isinstance(choose(draft, wanted, among=among), Placement)


def nearest_misfit(request: Request, misfits: Sequence[Misfit]) -> Misfit:
    """The misfit nearest to fitting: waiting can help, and the most of the requested amount is available."""
    if not misfits:
        return Misfit(Cause.NO_NODE, request.gang_size, 0)
    return min(misfits, key=lambda m: (m.never, -m.available, m.node or ""))


@lru_cache(maxsize=4096)
def speed_on(speeds: tuple[tuple[str, float], ...], model: str) -> float:
    """The relative speed of a job with these speeds on the device model; 1 if they do not name the model."""
    for wish, speed in speeds:
        if model_matches((wish,), model):
            return speed
    return 1.0


def _gang(
    draft: Draft, wanted: PlacementRequest, names: tuple[str, ...], prefer: Prefer, order: DeviceOrder | None
) -> Placement | Misfit:
    trial = draft.branch()
    members: list[Member] = []
    for _ in range(wanted.request.gang_size):
        found = _member(trial, wanted, names, prefer, order)
        if isinstance(found, Misfit):
            return found
        members.append(found)
        trial.take((found,), wanted.until, member_resident(wanted.request))
        if wanted.request.spread:
            names = tuple(name for name in names if name != found.node)
    return Placement(tuple(members))


def _member(
    draft: Draft,
    wanted: PlacementRequest,
    names: tuple[str, ...],
    prefer: Prefer,
    order: DeviceOrder | None,
    *,
    wholes: _WholeDevices | None = None,
) -> Member | Misfit:
    best: tuple[tuple[float, int, int, bool, tuple[int, ...]], str, tuple[int, ...]] | None = None
    misfits = []
    for name in names:
        answer = draft.fit(name, wanted)
        if isinstance(answer, Fit):
            speed, slots = _fastest(draft, wanted, name, answer)
            if len(slots) >= wanted.request.devices:
                lent_devices = lent_devices_taken(draft, wanted, name, slots)
                liked = draft.preference(wanted.request, name)
                fullest = () if prefer is Prefer.FIRST else _fullness(draft, wanted, name, answer, slots)
                fullest = (*_beside_its_like(draft, wanted, name, slots), *fullest)
                rank = (-speed, lent_devices, -liked, bool(answer.parts_milli), fullest)
                if best is None or rank < best[0]:
                    best = (rank, name, slots)
            else:
                misfits.append(Misfit(Cause.MODEL, wanted.request.devices, len(slots), never=True, node=name))
        else:
            misfits.append(answer if answer.node else replace(answer, node=name))
    if best is not None:
        return _take(draft, wanted, best[1], best[2], order=order, wholes=wholes)
    return nearest_misfit(wanted.request, misfits)


def lent_devices_taken(draft: Draft, wanted: PlacementRequest, name: str, slots: tuple[int, ...]) -> int:
    """The number of borrowed devices that a member would have to take on that node."""
    lent_slots = draft.capacity.slots_in_pools(name, wanted.lending_pools)
    return max(0, wanted.request.devices - sum(index not in lent_slots for index in slots)) if lent_slots else 0


def _fastest(draft: Draft, wanted: PlacementRequest, name: str, answer: Fit) -> tuple[float, tuple[int, ...]]:
    """The speed of the job on the node, and the slots to choose from for that speed. Devices of speed 0 are left out.

    A job runs at the speed of its slowest device. If the request takes parts of several devices, all are taken.
    """
    slots = answer.slots
    if not wanted.speeds or not wanted.request.devices:
        return 1.0, slots
    state = draft.free(name)
    by_model = {model: speed_on(wanted.speeds, model) for model in {slot.model for slot in state.slots}}
    if len(by_model) == 1:
        (speed,) = by_model.values()
        return speed, slots if speed > 0 else ()
    speeds = {index: by_model[state.slots[index].model] for index in slots}
    if answer.parts_milli:
        slowest = min(speeds.values())
        return slowest, slots if slowest > 0 else ()
    able = tuple(sorted((i for i in slots if speeds[i] > 0), key=lambda i: (-speeds[i], i)))
    if len(able) < wanted.request.devices:
        return 0.0, able
    slowest = speeds[able[wanted.request.devices - 1]]
    return slowest, tuple(i for i in able if speeds[i] >= slowest)


def _take(
    draft: Draft,
    wanted: PlacementRequest,
    name: str,
    slots: tuple[int, ...],
    *,
    order: DeviceOrder | None,
    wholes: _WholeDevices | None,
) -> Member:
    request = wanted.request
    if request.split_milli is not None:
        answer = draft.fit(name, wanted)
        if isinstance(answer, Fit) and answer.parts_milli:
            if request.split is Strategy.FILL:
                answer = _filled(draft, wanted, name, answer, wholes)
            state = draft.state(name, wanted)
            return member_on(draft, request, name, answer.slots, state=state, parts_milli=answer.parts_milli)
    if len(slots) > request.devices:
        left, scores = draft.free(name).slots, draft.capacity.scores(name)
        last = -1 if request.split_milli is not None else 1  # among equals, a splittable share takes the last slot
        lent_slots = draft.capacity.slots_in_pools(name, wanted.lending_pools)
        chosen = sorted(slots, key=lambda i: (left[i].free_milli, -scores[i], last * i))
        if order is not None:
            chosen = list(order(name, chosen))
        chosen.sort(key=lambda i: i in lent_slots)
        if request.pack is not None:
            chosen.sort(key=lambda i: left[i].free_milli)
        slots = tuple(chosen[: request.devices])
    return member_on(draft, request, name, tuple(sorted(slots)))


def member_on(
    draft: Draft,
    request: Request,
    name: str,
    slots: tuple[int, ...],
    *,
    state: NodeState | None = None,
    parts_milli: Sequence[int] = (),
) -> Member:
    """A member that takes all of these slots of a node, with amounts by `state`, or by what is free there.

    `parts_milli` are the parts of a split request, if they are decided.
    """
    devices = draft.capacity.node(name).devices
    uuids = [devices[index].uuid for index in slots]
    grants = grants_on(request, state or draft.free(name), slots, uuids, parts_milli)
    return Member(name, grants, request.cpu_milli, request.host_memory_mib, request.disk_mib)


def _beside_its_like(draft: Draft, wanted: PlacementRequest, name: str, slots: Sequence[int]) -> tuple[int, ...]:
    """A sort key for the nodes on which a packable job fits: first those with the fullest device."""
    if wanted.request.pack is None:
        return ()
    left = draft.free(name).slots
    return (min(left[slot].free_milli for slot in slots),)


def _fullness(draft: Draft, wanted: PlacementRequest, name: str, answer: Fit, slots: Sequence[int]) -> tuple[int, ...]:
    """A sort key for the nodes on which the request fits, the fullest first.

    For a request that fills devices, nodes that give the most whole devices come first. Then come nodes where the rest
    of the share takes a part of a device in use.
    """
    if not answer.parts_milli or wanted.request.split is not Strategy.FILL:
        return (len(slots),)
    state = draft.state(name, wanted)
    parts = [slot for slot, milli in zip(answer.slots, answer.parts_milli, strict=True) if milli < MILLI_PER_DEVICE]
    broken = sum(state.slots[slot].free_milli >= MILLI_PER_DEVICE for slot in parts)
    return len(parts) - len(answer.slots), broken, sum(slot.free_milli for slot in state.slots)


def _filled(draft: Draft, wanted: PlacementRequest, name: str, answer: Fit, wholes: _WholeDevices | None) -> Fit:
    """The answer with the best whole devices, if more are free than the request takes."""
    request, state = wanted.request, draft.state(name, wanted)
    able = slots_with_room(request, state, draft.capacity.usable(name, request))
    free = [slot for slot in able if state.slots[slot].free_milli >= MILLI_PER_DEVICE]
    count = answer.parts_milli.count(MILLI_PER_DEVICE)
    if wanted.speeds or not 0 < count < len(free):
        return answer
    if wholes is not None:
        return filled_from(request, state, wholes(name, free, count), among=able)
    lent_slots, scores = draft.capacity.slots_in_pools(name, wanted.lending_pools), draft.capacity.scores(name)
    chosen = sorted(free, key=lambda slot: (slot in lent_slots, -scores[slot], slot))
    return filled_from(request, state, chosen[:count], among=able)
