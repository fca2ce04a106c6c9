"""Finds the promise to a job that does not fit now: where and when it will start at the latest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Member, Placement, Promise
from corral.core.model.placing.certainty import Certainty
from corral.core.model.placing.fit import NEIGHBOUR_CAUSES, Fit, Misfit
from corral.core.model.placing.state import NodeState, Slot
from corral.core.model.view import View
from corral.core.scheduling.placing.node_by_node import choose, member_on, speed_on
from corral.core.scheduling.promising.run_time import expected_end, run_estimate_s
from corral.core.scheduling.state.draft import Draft, PlacementRequest
from corral.core.scheduling.state.timeline import Timeline, changed

NODES_LOOKED_AT = 256
"""The most nodes that a search for a promise considers: those with most of the requested amounts."""

MOMENT_S = 1.0
"""Start times that differ by less than this count as the same promise."""

TIMES_LOOKED_AT = 256
"""The most times at which devices become free that the search for a gang tries."""


def promise(
    draft: Draft, timeline: Timeline, job_id: str, wanted: PlacementRequest, duration_s: float, *, before: float = inf
) -> Promise | None:
    """The earliest start that can be promised to the request; None if none is known, or none is before `before`."""
    names = _candidates(draft, wanted)
    if wanted.request.gang_size == 1:
        found = _earliest_member(draft, timeline, wanted, duration_s, names, before=before)
        return None if found is None else Promise(job_id, Placement((found[1],)), found[0])
    for at in timeline.times(names)[:TIMES_LOOKED_AT]:
        if at >= before:
            break
        states = {name: draft.open_of(name, wanted, timeline.window(name, at, at + duration_s)) for name in names}
        placed = choose(draft.with_free(states), replace(wanted, until=inf))
        if isinstance(placed, Placement):
            return Promise(job_id, placed, at)
    return None


def certainty(view: View, promise: Promise, now: float) -> Certainty:
    """Whether a promised start is certain: only if all jobs it waits for end by a time limit, or are stopping.

    A job without a time limit, or one that is expected to end before its limit, may run longer than estimated.
    """
    for name in dict.fromkeys(member.node for member in promise.placement.members):
        for allocation_id in view.residents.get(name, ()):
            allocation = view.allocations[allocation_id]
            job = view.jobs.get(allocation.job_id)
            if job is None or expected_end(job, allocation, now, view.durations) > promise.start_at:
                continue
            limit = job.spec.time_limit_s
            if job.phase is Phase.STOPPING or limit is None or run_estimate_s(job, view.durations) != limit:
                return Certainty.EXPECTATION
    return Certainty.PROMISE


def still_there(
    draft: Draft, wanted: PlacementRequest, placement: Placement, state_of: Callable[[str], NodeState]
) -> bool:
    """Whether the placement fits in the states that `state_of` gives for its nodes."""
    left: dict[str, NodeState] = {}
    for member in placement.members:
        slots = draft.capacity.slots_of(member)
        state = left.get(member.node) or state_of(member.node)
        if isinstance(draft.memo(wanted.request, state, slots if wanted.request.devices else None), Misfit):
            return False
        state = left[member.node] = changed(state, member, slots, -1)
        if any(state.slots[index].free_milli < 0 or (state.slots[index].free_mib or 0) < 0 for index in slots):
            return False
    return True


def promises_changed(before: Mapping[str, Promise], promises: Sequence[Promise]) -> bool:
    """Whether these promises differ from `before`, or start earlier by more than MOMENT_S: the view must then change.

    A late promise moves with the clock and does not count. Recording each move would make the server plan without end.
    """
    if [one.job_id for one in promises] != list(before):
        return True
    return any(one.start_at < before[one.job_id].start_at - MOMENT_S for one in promises)


def _candidates(draft: Draft, wanted: PlacementRequest) -> list[str]:
    """The nodes on which the request could ever fit; if there are too many, those with most of what it asks for.

    Nodes that are excluded because of the jobs that run there are left out. A timeline knows what is released, but not
    by which job.
    """
    ignoring_promises = wanted.ignoring_promises()
    answers = [(name, draft.fit(name, ignoring_promises)) for name in draft.capacity.names]
    able = [
        (-(len(answer.slots) if isinstance(answer, Fit) else answer.available), name)
        for name, answer in answers
        if isinstance(answer, Fit) or not (answer.never or answer.cause in NEIGHBOUR_CAUSES)
    ]
    if len(able) > NODES_LOOKED_AT:
        able = sorted(able)[:NODES_LOOKED_AT]
    return [name for _, name in able]


def _earliest_member(
    draft: Draft, timeline: Timeline, wanted: PlacementRequest, duration_s: float, names: list[str], *, before: float
) -> tuple[float, Member] | None:
    best: tuple[float, str] | None = None
    for name in names:
        fits = _tester(draft, wanted, name)
        at = timeline.earliest(name, duration_s, fits, before if best is None else best[0])
        if at is not None and (best is None or at < best[0]):
            best = (at, name)
    if best is None:
        return None
    at, name = best
    window = timeline.window(name, at, at + duration_s)
    answer = _able(draft, wanted, name, draft.open_of(name, wanted, window))
    assert answer is not None, "it fits at the time that was found"
    since = timeline.free_since(name, at, answer.slots, wanted.request.share_milli)
    latest = sorted(answer.slots, key=lambda index: (-since[index], index))
    slots = answer.slots if answer.parts_milli else tuple(sorted(latest[: wanted.request.devices]))
    return at, member_on(draft, wanted.request, name, slots, state=window, parts_milli=answer.parts_milli)


def _tester(draft: Draft, wanted: PlacementRequest, name: str) -> Callable[[NodeState], bool]:
    """A test whether a member fits on the node in a given state. It is fast for a series of similar states."""
    request = wanted.request
    cpu_milli, memory_mib, disk_mib = request.cpu_milli, request.host_memory_mib, request.disk_mib
    enough: tuple[Slot, ...] | None = None

    def fits(state: NodeState) -> bool:
        nonlocal enough
        if state.cpu_milli < cpu_milli or state.memory_mib < memory_mib or state.disk_mib < disk_mib:
            return False
        if state.members_left is not None and state.members_left < 1:
            return False
        state = draft.open_of(name, wanted, state)
        host = state.cpu_milli >= cpu_milli and state.memory_mib >= memory_mib and state.disk_mib >= disk_mib
        if host and state.slots is enough:
            return True
        if _able(draft, wanted, name, state) is None:
            return False
        enough = state.slots
        return True

    return fits


def _able(draft: Draft, wanted: PlacementRequest, name: str, state: NodeState) -> Fit | None:
    """The slots that can serve one member on a node, if `state` is open to it; None if there are too few."""
    answer = draft.memo(wanted.request, state, draft.capacity.usable(name, wanted.request))
    if isinstance(answer, Misfit):
        return None
    able = tuple(index for index in answer.slots if speed_on(wanted.speeds, state.slots[index].model) > 0)
    if len(able) == len(answer.slots):
        return answer
    return Fit(able) if len(able) >= wanted.request.devices and not answer.parts_milli else None
