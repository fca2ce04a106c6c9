"""Evicts running jobs in one cycle: for one waiting job at most, and only if that job then fits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.plan import Evict
from corral.core.model.queues.quota import Scope
from corral.core.scheduling.evicting.moving import Moves
from corral.core.scheduling.evicting.preemption import Preemption
from corral.core.scheduling.evicting.victims import EvictionPlan, NewPlaces, Running
from corral.core.scheduling.queueing.admission import Barrier
from corral.core.scheduling.state.draft import Draft, PlacementRequest
from corral.core.scheduling.turn import Turn

Way = Callable[[Draft, Job, PlacementRequest, float], EvictionPlan | None]
"""A rule that finds jobs to evict for another, and its place; None if there are none, or it would still not fit."""


class LeastUrgent:
    """The priority of the least urgent running job, which is the highest number. Each value is computed on first use.

    An object is valid for one cycle: the running jobs must not change meanwhile.
    """

    def __init__(self, running: Callable[[], Iterable[Running]], scopes_of: Callable[[Job], Iterable[Scope]]) -> None:
        self._running = running
        self._scopes_of = scopes_of

    @cached_property
    def of_all(self) -> int | None:
        """The priority of the least urgent of all running jobs; None if no job runs."""
        return max((one.job.spec.priority for one in self._running()), default=None)

    @cached_property
    def by_scope(self) -> Mapping[Scope, int]:
        """The priority of the least urgent running job of each scope. Scopes without a running job are absent."""
        found: dict[Scope, int] = {}
        for one in self._running():
            priority = one.job.spec.priority
            for scope in self._scopes_of(one.job):
                found[scope] = max(found.get(scope, priority), priority)
        return found


@dataclass(slots=True)
class GivingWay:
    """The evictions of one cycle. After the first eviction, no other job may evict.

    `moves` moves jobs for others; None while the site lets no job be moved. `new_places` has the place to which each
    moved job goes.
    """

    rules: Preemption
    draft: Draft
    now: float
    moves: Moves | None = None
    evictions: list[Evict] = field(default_factory=list)
    new_places: NewPlaces = ()
    _least_urgent: LeastUrgent = field(init=False)

    def __post_init__(self) -> None:
        self._least_urgent = LeastUrgent(self.rules.running, self.rules.admission.scopes_of)

    def to_a_place(self, turn: Turn) -> Sequence[Way]:
        """The rules for a job that does not fit. Only the first job of its queue has any."""
        if self.evictions or not turn.first:
            return ()
        return (self.rules.make_room,) if self.moves is None else (self.rules.make_room, self.moves.make_room)

    def past_a_limit(self, turn: Turn, barrier: Barrier) -> Sequence[Way]:
        """The rules for a job that a limit or a quota blocks, in the order in which to try them."""
        ways: list[Way] = []
        if self.evictions:
            return ways
        if barrier.scope is not None and barrier.scope != Scope("queue", turn.job.spec.queue):
            ways.append(self.rules.reclaim)
        if barrier.counted is not None and self._has_less_urgent(turn.job, barrier.counted):
            ways.append(partial(self.rules.lift_limits, first=turn.first))
        return ways

    def go(self, ways: Sequence[Way], job: Job, wanted: PlacementRequest) -> Placement | None:
        """Evict by the first rule that finds jobs to evict. Return the place of the job; None if no rule does."""
        for way in ways:
            found = way(self.draft, job, wanted, self.now)
            if found is not None:
                self.evictions += [
                    Evict(one.job.id, job.id, why.text, why.rule, why.lender) for one, why in found.evicted
                ]
                self.new_places = found.new_places
                return found.placement
        return None

    def empty_a_node(self) -> None:
        """Move the jobs of a nearly empty node elsewhere, if the site lets jobs be moved and such a node exists."""
        if self.moves is not None and not self.evictions:
            evictions, self.new_places = self.moves.empty_a_node(self.draft, self.now)
            self.evictions += evictions

    def _has_less_urgent(self, job: Job, scope: Scope) -> bool:
        """Whether the job's queue preempts and a less urgent job counts against this limit."""
        if not self.rules.preempts(job.spec.queue):
            return False
        priority, least = job.spec.priority, self._least_urgent
        # All jobs first: if none is less urgent, no scope needs a look.
        if least.of_all is None or least.of_all <= priority:
            return False
        return least.by_scope.get(scope, priority) > priority
