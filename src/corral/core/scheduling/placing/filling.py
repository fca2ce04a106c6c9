"""Places requests that fill devices: as many whole devices as fit, and the rest where it leaves the least room."""

from collections.abc import Callable, Sequence

from corral.core.model.placing.fit import Fit, filled_from, slots_with_room
from corral.core.model.placing.split import Strategy
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.state.draft import Draft, PlacementRequest

WholeDevices = Callable[[str, Sequence[int], int], Sequence[int]]
"""(node name, slots of free devices, how many) -> the slots to take whole."""


def fullness(draft: Draft, wanted: PlacementRequest, name: str, answer: Fit, slots: Sequence[int]) -> tuple[int, ...]:
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


def filled(draft: Draft, wanted: PlacementRequest, name: str, answer: Fit, wholes: WholeDevices | None) -> Fit:
    """The answer with the best whole devices, if more are free than the request takes."""
    request, state = wanted.request, draft.state(name, wanted)
    able = slots_with_room(request, state, draft.capacity.named(name, request.device_uuids))
    free = [slot for slot in able if state.slots[slot].free_milli >= MILLI_PER_DEVICE]
    count = answer.parts_milli.count(MILLI_PER_DEVICE)
    if wanted.speeds or not 0 < count < len(free):
        return answer
    if wholes is not None:
        return filled_from(request, state, wholes(name, free, count), among=able)
    lent_slots, scores = draft.capacity.slots_in_pools(name, wanted.lending_pools), draft.capacity.scores(name)
    chosen = sorted(free, key=lambda slot: (slot in lent_slots, -scores[slot], slot))
    return filled_from(request, state, chosen[:count], among=able)
