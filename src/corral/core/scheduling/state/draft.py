"""A working copy of the free capacity for one scheduling cycle: what is left after the starts decided so far.

A node has two states here. Its *free* state is what is not allocated. Its *open* state, for a job that would run until
some time, is the part that the job may take without delaying jobs ahead of it. It is the free state minus what the
timeline promises to those jobs by then, minus what is set aside for blocked jobs of unpredictable start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Member, Placement
from corral.core.model.placing.fit import Fit, FitMemo, Misfit, fit_memo, name_misfit, preference
from corral.core.model.placing.placement_rules import Resident
from corral.core.model.placing.state import NodeState
from corral.core.model.view import View, ViewDraft
from corral.core.scheduling.state.capacity import Capacity
from corral.core.scheduling.state.neighbours import Neighbours, neighbours_in
from corral.core.scheduling.state.set_aside import SetAside, reserved
from corral.core.scheduling.state.timeline import Release, Timeline, changed


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """A request with everything else that decides where it may be placed.

    Attributes:
        request: what the job asks for.
        until: the time at which the job is expected to end, Unix seconds; infinity if it is not known.
        speeds: relative speed of the job by device model, as in `JobSpec`; 0 means that it does not run there.
        respects_promises: False ignores what is promised to or set aside for other jobs.
        passes: whether the job may take what is set aside for jobs that may be passed.
        closed_pools: pools whose devices the job may not use.
        lending_pools: pools of others that lend to the job. Their devices are taken last, since they may be reclaimed.
    """

    request: Request
    until: float = inf
    speeds: tuple[tuple[str, float], ...] = ()
    respects_promises: bool = True
    closed_pools: tuple[str, ...] = ()
    lending_pools: tuple[str, ...] = ()
    passes: bool = False

    def ignoring_promises(self) -> "PlacementRequest":
        """The same request, as if nothing were promised to or set aside for other jobs."""
        # `replace` would take five times as long, and this runs for every job that waits.
        return PlacementRequest(self.request, self.until, self.speeds, False, self.closed_pools, self.lending_pools)

    def without_lent(self) -> "PlacementRequest":
        """The same request without borrowed devices. Pools that would lend to it are closed to it too."""
        closed_pools = tuple(sorted((*self.closed_pools, *self.lending_pools)))
        return replace(self, closed_pools=closed_pools, lending_pools=(), passes=False)


Choose = Callable[["Draft", PlacementRequest], Placement | Misfit]
"""Finds a place for every member of a request, or returns why there is none. Does not change the draft."""


@dataclass(slots=True)
class Draft:
    """Free and open capacity, changed by `take`, the promises of the timeline, and what is set `aside`.

    Attributes:
        started: by node, the members that were taken in this cycle, each with its end.
        changed: the free states of the nodes on which this draft has taken or given back something.
    """

    capacity: Capacity
    memo: FitMemo
    timeline: Timeline | None = None
    started: dict[str, list[Release]] = field(default_factory=dict)
    changed: dict[str, NodeState] = field(default_factory=dict)
    _closed: dict[tuple[str, tuple[str, ...]], tuple[NodeState, NodeState]] = field(default_factory=dict)
    aside: SetAside = field(init=False)
    _neighbours: Neighbours = field(init=False)

    def __post_init__(self) -> None:
        self.aside = SetAside(self.capacity, self.memo)
        self._neighbours = neighbours_in(self.capacity.view)

    def free(self, name: str) -> NodeState:
        """The free state of the node. The starts of this cycle count as allocated."""
        return self.changed.get(name) or self.capacity.state(name)

    @property
    def all_open(self) -> bool:
        """Whether nothing is promised or set aside. Then everything free is open."""
        return not self.aside.jobs and (self.timeline is None or not self.timeline.promised)

    def state(self, name: str, wanted: PlacementRequest) -> NodeState:
        """The part of the node that the request may use: its open state without the devices of closed pools."""
        state = self._before_closing(name, wanted)
        if not self.capacity.slots_in_pools(name, wanted.closed_pools):
            return state
        found = self._closed.get((name, wanted.closed_pools))
        if found is None or found[0] is not state:
            found = self._closed[name, wanted.closed_pools] = (state, self._less_closed(name, wanted, state))
        return found[1]

    def open_of(self, name: str, wanted: PlacementRequest, state: NodeState) -> NodeState:
        """The part of the node that the request may use if `state` is free there, for example at a later time."""
        if self.aside.jobs:
            state = self.aside.rest_later(name, state, passes=wanted.passes)
        return self._less_closed(name, wanted, state)

    def _less_closed(self, name: str, wanted: PlacementRequest, state: NodeState) -> NodeState:
        closed = self.capacity.slots_in_pools(name, wanted.closed_pools)
        if not closed:
            return state
        return state._replace(slots=tuple(reserved(s) if i in closed else s for i, s in enumerate(state.slots)))

    def _before_closing(self, name: str, wanted: PlacementRequest) -> NodeState:
        if not wanted.respects_promises:
            return self.free(name)
        base = self.free(name)
        if self.timeline is not None and name in self.timeline.promised:
            base = self.timeline.until(name, wanted.until)
        return self.aside.rest(name, base, passes=wanted.passes) if self.aside.jobs else base

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
        return self.memo(request, self.state(name, wanted), self.capacity.usable(name, request))

    def repels(self, request: Request) -> bool:
        """Whether something that runs may keep the request off its node, even if the request has no rules itself."""
        if self._neighbours.repels or not self.capacity.repelling:
            return self._neighbours.repels
        return self.capacity.repels(tagged=request.rules is not None and bool(request.rules.tags))

    def _neighbour_misfit(self, request: Request, name: str) -> Misfit | None:
        if request.by_neighbours or self.repels(request):
            return self._neighbours.misfit(request, name)
        return None

    def preference(self, request: Request, name: str) -> int:
        """The preference of the request for the node, by the node itself and by what runs there."""
        if not request.prefers and request.rules is None and not self.capacity.node(name).taints:
            return 0
        liked = preference(request, self.capacity.state(name), name)
        return liked if request.rules is None else liked + self._neighbours.preference(request, name)

    def with_free(self, states: dict[str, NodeState]) -> "Draft":
        """A draft in which these states are free and nothing is promised or set aside."""
        draft = Draft(self.capacity, self.memo, changed=states)
        draft._neighbours = self._neighbours
        return draft

    def emptied(self) -> "Draft":
        """A draft in which nothing is allocated."""
        empty = self.with_free({})
        empty._neighbours = Neighbours(self.capacity.view.nodes.values, lambda name: ())
        for name in self.capacity.names:
            empty.changed[name] = self.free(name)
            members = [member for one in self.capacity.allocations_on(name) for member in one.placement.members]
            empty.give([member for member in members if member.node == name])
            empty.give([release.member for release in self.started.get(name, ())])
        return empty

    def branch(self) -> "Draft":
        """A copy for trials, for example of the members of a gang one after another. This draft does not change."""
        timeline = None if self.timeline is None else self.timeline.branch()
        draft = Draft(self.capacity, self.memo, timeline, changed=dict(self.changed))
        draft.aside = self.aside.branch()
        draft._neighbours = self._neighbours.branch()
        return draft

    def take(self, members: Sequence[Member], until: float = inf, resident: Resident | None = None) -> None:
        """Allocate the grants of the members until `until`. On each node, rules see the job as `resident`."""
        for member in members:
            if self.timeline is not None:
                self.timeline.take(member, until)
            self.started.setdefault(member.node, []).append(Release(until, member))
            slots = self.capacity.slots_of(member)
            self.changed[member.node] = changed(self.free(member.node), member, slots, -1)
            if resident is not None:
                self._neighbours.arrive(member.node, resident)

    def give(self, members: Sequence[Member]) -> None:
        """Free the grants of the members, to see what could then be placed."""
        for member in members:
            if self.timeline is not None:
                self.timeline.give(member)
            slots = self.capacity.slots_of(member)
            self.changed[member.node] = changed(self.free(member.node), member, slots, 1)


def draft_of(view: View) -> Draft:
    """A new draft of a view, in which everything not allocated is free."""
    return Draft(Capacity(ViewDraft(view)), fit_memo())
