"""A working copy of the free capacity for one scheduling cycle: what is left after the starts decided so far.

A node has two states here. Its *free* state is what is not allocated. Its *open* state, for a job that would run until
some time, is the part of the free state that the job may take without delaying jobs ahead of it: the free state minus
what the timeline promises to them by then, minus what is set aside for blocked jobs whose start nobody can predict.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from corral.model.allocation import Member, Placement
from corral.model.device import DeviceState
from corral.model.fit import Cause, Fit, Misfit, could_use, fit, name_misfit, preference
from corral.model.job import Request
from corral.model.placement_rules import Resident
from corral.model.state import HostAmounts, NodeState, Slot, with_amounts
from corral.model.view import View, ViewDraft
from corral.scheduling.state.capacity import Capacity
from corral.scheduling.state.neighbours import Neighbours
from corral.scheduling.state.timeline import Release, Timeline, changed

HOST_CAUSES = (Cause.CPU, Cause.HOST_MEMORY, Cause.DISK, Cause.MEMBERS)


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """A request with what else decides where it may be placed.

    Attributes:
        request: what the job asks for.
        until: when the job is expected to end, Unix seconds; infinity where that is not known.
        speeds: relative speed of the job by device model, as in `JobSpec`; 0 means that it does not run there.
        respects_promises: False ignores what is promised to or set aside for other jobs.
        passes: the job may take what is set aside for jobs that may be passed.
        closed_pools: pools whose devices the job may not use.
        lending_pools: pools of others that lend to the job; their devices are taken last, since they may be reclaimed.
    """

    request: Request
    until: float = inf
    speeds: tuple[tuple[str, float], ...] = ()
    respects_promises: bool = True
    closed_pools: tuple[str, ...] = ()
    lending_pools: tuple[str, ...] = ()
    passes: bool = False

    def ignoring_promises(self) -> "PlacementRequest":
        """The same request as if nothing were promised to or set aside for other jobs."""
        return PlacementRequest(self.request, self.until, self.speeds, False, self.closed_pools, self.lending_pools)

    def without_lent(self) -> "PlacementRequest":
        """The same request without borrowed devices: the pools that would lend to it are closed to it too."""
        return PlacementRequest(
            self.request,
            self.until,
            self.speeds,
            self.respects_promises,
            tuple(sorted((*self.closed_pools, *self.lending_pools))),
        )


Choose = Callable[["Draft", PlacementRequest], Placement | Misfit]
"""Finds a place for every member of a request, or says why there is none. Does not change the draft."""


@dataclass(frozen=True, slots=True)
class BlockedJob:
    """A job that could not start, for which capacity is set aside.

    Attributes:
        host: it lacks CPU or memory of the host, so that these are set aside too.
        nodes: where capacity is set aside; None for every node that could serve the job.
        closed_pools: pools whose devices it may not use anyway, and which stay open to others.
        may_be_passed: what is set aside stays open to jobs that pass.
    """

    job_id: str
    request: Request
    host: bool
    nodes: tuple[str, ...] | None = None
    closed_pools: tuple[str, ...] = ()
    may_be_passed: bool = False


class FitMemo:
    """A cache of `fit` by request and node state, kept from cycle to cycle; nodes in equal states share an answer."""

    LIMIT = 50_000

    def __init__(self) -> None:
        self._known: dict[tuple[Request, NodeState, tuple[int, ...] | None], Fit | Misfit] = {}

    def fit(self, request: Request, state: NodeState, named: tuple[int, ...] | None) -> Fit | Misfit:
        """The answer of `corral.model.fit.fit`."""
        key = (request, state, named)
        answer = self._known.get(key)
        if answer is None:
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            answer = self._known[key] = fit(request, state, named=named)
        return answer


@dataclass(slots=True)
class _Open:
    """A node's state less what is set aside for the first `applied` blocked jobs; valid while the node is in `base`."""

    base: NodeState
    state: NodeState
    applied: int


@dataclass(slots=True)
class Draft:
    """Free and open capacity, changed by `take`, `set_aside` and the promises of the timeline.

    `started` has, by node, what was taken in this cycle and until when.
    """

    capacity: Capacity
    memo: FitMemo
    timeline: Timeline | None = None
    started: dict[str, list[Release]] = field(default_factory=dict)
    _free: dict[str, NodeState] = field(default_factory=dict)
    _open: dict[tuple[str, bool], _Open] = field(default_factory=dict)
    _blocked: list[BlockedJob] = field(default_factory=list)
    _blocked_shapes: dict[tuple[Request, bool, tuple[str, ...] | None, bool], str] = field(default_factory=dict)
    _closed: dict[tuple[str, tuple[str, ...]], tuple[NodeState, NodeState]] = field(default_factory=dict)
    _neighbours: Neighbours = field(init=False)

    def __post_init__(self) -> None:
        self._neighbours = Neighbours(self.capacity.all_nodes, self.capacity.residents)

    def free(self, name: str) -> NodeState:
        """What is not allocated on the node, the starts of this cycle counted as allocated."""
        return self._free.get(name) or self.capacity.state(name)

    @property
    def changed(self) -> Iterable[str]:
        """The nodes on which this draft has taken or given back something."""
        return self._free

    @property
    def all_open(self) -> bool:
        """Whether nothing is promised or set aside, so that everything free is open."""
        return not self._blocked and (self.timeline is None or not self.timeline.has_promises)

    def state(self, name: str, wanted: PlacementRequest) -> NodeState:
        """What the request may use of the node: its open state without the devices of closed pools."""
        state = self._before_closing(name, wanted)
        if not self.capacity.slots_in_pools(name, wanted.closed_pools):
            return state
        found = self._closed.get((name, wanted.closed_pools))
        if found is None or found[0] is not state:
            found = self._closed[name, wanted.closed_pools] = (state, self._less_closed(name, wanted, state))
        return found[1]

    def open_of(self, name: str, wanted: PlacementRequest, state: NodeState) -> NodeState:
        """What the request may use of the node if `state` were free there, as it will be at some later time."""
        if not self._blocked and not wanted.closed_pools:
            return state
        for blocked in self._blocked:
            if not (wanted.passes and blocked.may_be_passed):
                state = self._less_set_aside(blocked, name, state)
        return self._less_closed(name, wanted, state)

    def _less_closed(self, name: str, wanted: PlacementRequest, state: NodeState) -> NodeState:
        closed = self.capacity.slots_in_pools(name, wanted.closed_pools)
        if not closed:
            return state
        return state._replace(slots=tuple(_reserved(s) if i in closed else s for i, s in enumerate(state.slots)))

    def _before_closing(self, name: str, wanted: PlacementRequest) -> NodeState:
        if not wanted.respects_promises:
            return self.free(name)
        base = self.free(name)
        if self.timeline is not None and self.timeline.has_promise_on(name):
            base = self.timeline.until(name, wanted.until)
        if not self._blocked:
            return base
        found = self._open.get((name, wanted.passes))
        if found is None or found.base is not base:
            found = self._open[name, wanted.passes] = _Open(base, base, 0)
        for blocked in self._blocked[found.applied :]:
            if wanted.passes and blocked.may_be_passed:
                continue
            found.state = self._less_set_aside(blocked, name, found.state)
        found.applied = len(self._blocked)
        return found.state

    def fit(self, name: str, wanted: PlacementRequest) -> Fit | Misfit:
        """Whether one member of the request fits on the node now."""
        request = wanted.request
        if request.rules is not None or request.tells_nodes_apart:
            misfit = name_misfit(request, name, self.capacity.node(name).labels)
            if misfit is not None:
                return misfit
        if request.rules is not None or request.avoid_jobs or self._neighbours.repels or self.capacity.repelling:
            misfit = self._neighbour_misfit(request, name)
            if misfit is not None:
                return misfit
        return self.memo.fit(request, self.state(name, wanted), self.capacity.named(name, request.device_uuids))

    def repels(self, request: Request) -> bool:
        """Whether something that runs may keep the request off its node, although it may have no such rules itself."""
        if self._neighbours.repels or not self.capacity.repelling:
            return self._neighbours.repels
        return self.capacity.repels(tagged=request.rules is not None and bool(request.rules.tags))

    def _neighbour_misfit(self, request: Request, name: str) -> Misfit | None:
        if request.by_neighbours or self.repels(request):
            return self._neighbours.misfit(request, name)
        return None

    def preference(self, request: Request, name: str) -> int:
        """How much the request prefers the node, for what it is and for what runs there."""
        if not request.prefers and request.rules is None and not self.capacity.node(name).taints:
            return 0
        liked = preference(request, self.capacity.state(name), name)
        return liked if request.rules is None else liked + self._neighbours.preference(request, name)

    def with_free(self, states: dict[str, NodeState]) -> "Draft":
        """A draft in which these states are free and nothing is promised or set aside."""
        draft = Draft(self.capacity, self.memo, _free=states)
        draft._neighbours = self._neighbours
        return draft

    def emptied(self) -> "Draft":
        """A draft in which nothing is allocated."""
        empty = self.with_free({})
        empty._neighbours = Neighbours(self.capacity.all_nodes, lambda name: ())
        for name in self.capacity.names:
            empty._free[name] = self.free(name)
            members = [member for one in self.capacity.allocations_on(name) for member in one.placement.members]
            empty.give([member for member in members if member.node == name])
            empty.give([release.member for release in self.started.get(name, ())])
        return empty

    def branch(self) -> "Draft":
        """A copy to try things on, such as the members of a gang one after another; this draft does not change."""
        draft = Draft(
            self.capacity,
            self.memo,
            None if self.timeline is None else self.timeline.branch(),
            {},
            dict(self._free),
            {},
            list(self._blocked),
            dict(self._blocked_shapes),
        )
        draft._neighbours = self._neighbours.branch()
        return draft

    def take(self, members: Sequence[Member], until: float = inf, resident: Resident | None = None) -> None:
        """Allocate what the members get, until some time; each is on its node the `resident` that rules know it as."""
        for member in members:
            if self.timeline is not None:
                self.timeline.take(member, until)
            self.started.setdefault(member.node, []).append(Release(until, member))
            self._free[member.node] = changed(self.free(member.node), member, self.slots_of(member), -1)
            if resident is not None:
                self._neighbours.arrive(member.node, resident)

    def give(self, members: Sequence[Member]) -> None:
        """Free what the members hold, to see what could then be placed."""
        for member in members:
            if self.timeline is not None:
                self.timeline.give(member)
            self._free[member.node] = changed(self.free(member.node), member, self.slots_of(member), 1)

    def set_aside(self, blocked: BlockedJob) -> None:
        """From here on, nothing that the blocked job could use is open to others, except to those that may pass it."""
        shape = (blocked.request, blocked.host, blocked.nodes, blocked.may_be_passed)
        if self._blocked_shapes.setdefault(shape, blocked.job_id) == blocked.job_id:
            self._blocked.append(blocked)

    @property
    def may_be_passed(self) -> bool:
        """Whether something is set aside that jobs which pass may take."""
        return any(blocked.may_be_passed for blocked in self._blocked)

    def set_aside_for(self, placement: Placement, *, passes: bool = False) -> str | None:
        """The first blocked job for which something in the placement is set aside; None if there is none.

        With `passes`, those that may be passed do not count.
        """
        for blocked in self._blocked:
            if passes and blocked.may_be_passed:
                continue
            for member in placement.members:
                before = self.free(member.node)
                after = self._less_set_aside(blocked, member.node, before)
                changed_rows = any(before.slots[i] != after.slots[i] for i in self.slots_of(member))
                if changed_rows or _host_of(after) != _host_of(before):
                    return blocked.job_id
        return None

    def slots_of(self, member: Member) -> tuple[int, ...]:
        """The slots of the member's devices, in the order of its grants."""
        if not member.grants:
            return ()
        found = (self.capacity.slot(grant.uuid) for grant in member.grants)
        return tuple(place[1] for place in found if place is not None)

    def _less_set_aside(self, blocked: BlockedJob, name: str, state: NodeState) -> NodeState:
        """The state without what the blocked job could use of it; the same object where it could never run there."""
        if (blocked.nodes is not None and name not in blocked.nodes) or not blocked.request.allows_node(name):
            return state
        named = self.capacity.named(name, blocked.request.device_uuids)
        answer = self.memo.fit(blocked.request, state, named)
        if isinstance(answer, Misfit) and answer.never:
            return state
        closed = self.capacity.slots_in_pools(name, blocked.closed_pools)
        slots = tuple(
            _closed_to_others(blocked.request, slot)
            if blocked.request.devices
            and i not in closed
            and could_use(blocked.request, slot, named=named is None or i in named)
            else slot
            for i, slot in enumerate(state.slots)
        )
        return with_amounts(state, slots, (0, 0, 0, state.members_left) if blocked.host else _host_of(state))


def _host_of(state: NodeState) -> HostAmounts:
    return state.cpu_milli, state.memory_mib, state.disk_mib, state.members_left


def _closed_to_others(request: Request, slot: Slot) -> Slot:
    if slot.blocked is not None and request.accept_in_use is None:
        return slot
    return _reserved(slot)


def _reserved(slot: Slot) -> Slot:
    return slot._replace(blocked=DeviceState.RESERVED)


def draft_of(view: View) -> Draft:
    """A new draft of a view: free is what is not allocated in it."""
    return Draft(Capacity(ViewDraft(view)), FitMemo())
