"""One cycle's scratch copy of the free capacity: what would be left after the starts decided so far.

A node has two readings. Its *free* state is what nobody holds. Its *open* state, for a job that would run until some
time, is what of that it may have without delaying those ahead: less what a timeline has promised them by then, and
less what is kept for a blocked job of which nobody can tell when it will start.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from corral.model.allocation import Member, Placement
from corral.model.device import DeviceState
from corral.model.fit import Cause, Fit, Misfit, NodeState, Slot, could_use, fit
from corral.model.job import Job, Request
from corral.model.view import View, ViewDraft
from corral.scheduling.state.capacity import Capacity
from corral.scheduling.state.timeline import Release, Timeline, changed

HOST_CAUSES = (Cause.CPU, Cause.HOST_MEMORY)


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of a draft: a place for a request until some time (Unix seconds), on devices of these speeds.

    `kept` False asks what would be if nothing were promised to or kept for anybody. `shut` are the pools whose devices
    it may not have, `lent` those whose devices it should have last, because it may have to give them back.
    """

    request: Request
    until: float = inf
    speeds: tuple[tuple[str, float], ...] = ()
    kept: bool = True
    shut: tuple[str, ...] = ()
    lent: tuple[str, ...] = ()

    def regardless(self) -> "Ask":
        """The same, were nothing promised to or kept for anybody."""
        return Ask(self.request, self.until, self.speeds, False, self.shut, self.lent)

    def firmly(self) -> "Ask":
        """The same, of devices that nobody may want back: what is lent to it is shut."""
        return Ask(self.request, self.until, self.speeds, self.kept, tuple(sorted((*self.shut, *self.lent))))


Choose = Callable[["Draft", Ask], Placement | Misfit]
"""Finds a place for every member of what is asked, or says why there is none. Leaves the draft as it was."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """A job that was not started and what it needs; `host` says that it lacks CPU or memory of the host.

    `nodes` are those on which it is kept, None for all; `shut` the pools that it may not have anyway.
    """

    job_id: str
    request: Request
    host: bool
    nodes: tuple[str, ...] | None = None
    shut: tuple[str, ...] = ()


class FitMemo:
    """Answers of `fit` by request and state: nodes in equal states share one, from cycle to cycle."""

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
    """A node's free state with the first `applied` keepings taken off; good as long as the free state is `base`."""

    base: NodeState
    state: NodeState
    applied: int


@dataclass(slots=True)
class Draft:
    """Free and open capacity, changed by `take`, `keep` and the timeline's reservations.

    `started` has what was taken on each node in this cycle, and until when.
    """

    capacity: Capacity
    memo: FitMemo
    timeline: Timeline | None = None
    started: dict[str, list[Release]] = field(default_factory=dict)
    _free: dict[str, NodeState] = field(default_factory=dict)
    _open: dict[str, _Open] = field(default_factory=dict)
    _kept: list[Keeping] = field(default_factory=list)
    _kept_shapes: dict[tuple[Request, bool, tuple[str, ...] | None], str] = field(default_factory=dict)
    _shut: dict[tuple[str, tuple[str, ...]], tuple[NodeState, NodeState]] = field(default_factory=dict)
    _arrived: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def free(self, name: str) -> NodeState:
        """What nobody holds on the node."""
        return self._free.get(name) or self.capacity.state(name)

    @property
    def changed(self) -> Iterable[str]:
        """The nodes of which something was handed out or taken back in this draft."""
        return self._free

    @property
    def unpromised(self) -> bool:
        """Whether nothing is promised to or kept for anybody, so that all that is free is open."""
        return not self._kept and (self.timeline is None or not self.timeline.promises)

    def state(self, name: str, ask: Ask) -> NodeState:
        """What of the node the ask may have."""
        state = self._unshut(name, ask)
        if not self.capacity.pooled(name, ask.shut):
            return state
        found = self._shut.get((name, ask.shut))
        if found is None or found[0] is not state:
            found = self._shut[name, ask.shut] = (state, self._less_shut(name, ask, state))
        return found[1]

    def open_of(self, name: str, ask: Ask, state: NodeState) -> NodeState:
        """What the ask may have of the node if this were free there, as it will be at some time."""
        if not self._kept and not ask.shut:
            return state
        for keeping in self._kept:
            state = self._less(keeping, name, state)
        return self._less_shut(name, ask, state)

    def _less_shut(self, name: str, ask: Ask, state: NodeState) -> NodeState:
        closed = self.capacity.pooled(name, ask.shut)
        if not closed:
            return state
        return state._replace(slots=tuple(_reserved(s) if i in closed else s for i, s in enumerate(state.slots)))

    def _unshut(self, name: str, ask: Ask) -> NodeState:
        if not ask.kept:
            return self.free(name)
        base = self.free(name)
        if self.timeline is not None and self.timeline.reserves(name):
            base = self.timeline.until(name, ask.until)
        if not self._kept:
            return base
        found = self._open.get(name)
        if found is None or found.base is not base:
            found = self._open[name] = _Open(base, base, 0)
        for keeping in self._kept[found.applied :]:
            found.state = self._less(keeping, name, found.state)
        found.applied = len(self._kept)
        return found.state

    def fit(self, name: str, ask: Ask) -> Fit | Misfit:
        """Whether one member fits on the node."""
        request = ask.request
        if request.avoid_jobs:
            present = {*self.capacity.residents(name), *self._arrived.get(name, ())}
            avoided = sum(1 for job in request.avoid_jobs if job in present)
            if avoided:
                return Misfit(Cause.ANTI_AFFINITY, 0, avoided, eviction_helps=True)
        return self.memo.fit(request, self.state(name, ask), self.capacity.named(name, request.device_uuids))

    def with_free(self, states: dict[str, NodeState]) -> "Draft":
        """A draft in which these states are free and nothing is promised or kept."""
        return Draft(self.capacity, self.memo, _free=states, _arrived=self._arrived)

    def emptied(self) -> "Draft":
        """A draft in which nobody holds anything."""
        empty = self.with_free({})
        for name in self.capacity.names:
            empty._free[name] = self.free(name)
            held = [member for one in self.capacity.allocations_on(name) for member in one.placement.members]
            empty.give([member for member in held if member.node == name])
            empty.give([release.member for release in self.started.get(name, ())])
        return empty

    def branch(self) -> "Draft":
        """A copy on which members of a gang can be tried one after another; it shares the timeline and changes none."""
        return Draft(
            self.capacity,
            self.memo,
            None if self.timeline is None else self.timeline.branch(),
            {},
            dict(self._free),
            {},
            list(self._kept),
            dict(self._kept_shapes),
            _arrived=dict(self._arrived),
        )

    def take(self, members: Sequence[Member], until: float = inf, job: Job | None = None) -> None:
        """Hand out what the members get until some time, to a job whose name others may want to avoid."""
        for member in members:
            if self.timeline is not None:
                self.timeline.take(member, until)
            self.started.setdefault(member.node, []).append(Release(until, member))
            self._free[member.node] = changed(self.free(member.node), member, self.slots_of(member), -1)
            if job is not None:
                self._arrived[member.node] = (*self._arrived.get(member.node, ()), job.spec.name)

    def give(self, members: Sequence[Member]) -> None:
        """Take back what the members hold, to see what could be done with it."""
        for member in members:
            if self.timeline is not None:
                self.timeline.give(member)
            self._free[member.node] = changed(self.free(member.node), member, self.slots_of(member), 1)

    def keep(self, keeping: Keeping) -> None:
        """From here on nothing that the job could use is open to others."""
        shape = (keeping.request, keeping.host, keeping.nodes)
        if self._kept_shapes.setdefault(shape, keeping.job_id) == keeping.job_id:
            self._kept.append(keeping)

    def keeper(self, placement: Placement) -> str | None:
        """The first job for which something in the placement is kept."""
        for keeping in self._kept:
            for member in placement.members:
                before = self.free(member.node)
                after = self._less(keeping, member.node, before)
                touched = any(before.slots[i] != after.slots[i] for i in self.slots_of(member))
                if touched or (after.cpu_milli, after.memory_mib) != (before.cpu_milli, before.memory_mib):
                    return keeping.job_id
        return None

    def slots_of(self, member: Member) -> tuple[int, ...]:
        """The slots of the member's grants, in their order."""
        if not member.grants:
            return ()
        found = (self.capacity.slot(grant.uuid) for grant in member.grants)
        return tuple(place[1] for place in found if place is not None)

    def _less(self, keeping: Keeping, name: str, state: NodeState) -> NodeState:
        """The state with everything kept that the job could use, were it only free; itself if it never could."""
        if keeping.nodes is not None and name not in keeping.nodes:
            return state
        named = self.capacity.named(name, keeping.request.device_uuids)
        answer = self.memo.fit(keeping.request, state, named)
        if isinstance(answer, Misfit) and answer.never:
            return state
        shut = self.capacity.pooled(name, keeping.shut)
        slots = tuple(
            _kept(keeping.request, slot)
            if keeping.request.devices
            and i not in shut
            and could_use(keeping.request, slot, named=named is None or i in named)
            else slot
            for i, slot in enumerate(state.slots)
        )
        cpu_milli, memory_mib = (0, 0) if keeping.host else (state.cpu_milli, state.memory_mib)
        return NodeState(slots, cpu_milli, memory_mib, state.labels, state.driver, state.cuda, state.status)


def _kept(request: Request, slot: Slot) -> Slot:
    if slot.blocked is not None and request.accept_in_use is None:
        return slot
    return _reserved(slot)


def _reserved(slot: Slot) -> Slot:
    return slot._replace(blocked=DeviceState.RESERVED)


def draft_of(view: View) -> Draft:
    """A fresh draft of everything that is free in the view."""
    return Draft(Capacity(ViewDraft(view)), FitMemo())
