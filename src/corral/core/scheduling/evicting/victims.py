"""Chooses the jobs whose eviction costs least and makes a waiting job fit; none if it would still not fit."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Placement
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.queues.quota import Scope, Used
from corral.core.scheduling.placing.node_by_node import choose, fits
from corral.core.scheduling.queueing.admission import Admission, released
from corral.core.scheduling.state.draft import Draft, PlacementRequest


@dataclass(frozen=True, slots=True)
class Running:
    """A job with an allocation. Its work is not in a checkpoint since `unsaved_since` (Unix seconds)."""

    job: Job
    allocation: Allocation
    unsaved_since: float

    @property
    def runs(self) -> bool:
        """Whether Corral started the job, and it runs without a request to stop."""
        return self.job.phase is Phase.RUNNING and self.job.spec.kind is JobKind.RUN


NewPlaces = tuple[tuple[Job, Placement], ...]
"""Jobs that move, each with its new place."""


@dataclass(frozen=True, slots=True)
class EvictionReason:
    """The rule by which a running job may be evicted for another, and a sentence that says it.

    `lender` is the queue or pool that reclaims, if any.
    """

    rule: EvictionRule
    text: str
    lender: str | None = None


WhyEvict = Callable[[Running], EvictionReason | None]
"""Returns why a running job may be evicted; None if it may not."""


class Shortfall:
    """The amounts, by scope, that jobs must release before the limits of another job let it start. Empty by default."""

    __slots__ = ("_admission", "missing")

    def __init__(self, missing: Mapping[Scope, Used] | None = None, admission: Admission | None = None) -> None:
        self.missing = missing or {}
        self._admission = admission

    @property
    def lifted(self) -> bool:
        """Whether enough is released."""
        return all(max(used) <= 0 for used in self.missing.values())

    def scopes_of(self, one: Running) -> tuple[Scope, ...]:
        """The scopes with a shortfall that the end of this job would reduce."""
        scopes = () if self._admission is None else self._admission.scopes_of(one.job)
        return tuple(scope for scope in self.missing if scope in scopes)

    def without(self, one: Running) -> "Shortfall":
        """The shortfall that remains after this job has ended."""
        return self._counting(one, -1)

    def with_again(self, one: Running) -> "Shortfall":
        """The shortfall if this job, which counts as ended here, goes on after all."""
        return self._counting(one, 1)

    def _counting(self, one: Running, times: int) -> "Shortfall":
        if self._admission is None or not self.missing:
            return self
        scopes, used = self._admission.scopes_of(one.job), released(self._admission, one.job, one.allocation.placement)
        return Shortfall(
            {scope: left.plus(used, times) if scope in scopes else left for scope, left in self.missing.items()},
            self._admission,
        )


NO_SHORTFALL = Shortfall()


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """The place of a job, and the jobs to evict for it, each with the reason.

    The placement counts jobs that are already stopping as gone. `new_places` has the place to which each job moves, if
    the evictions are moves.
    """

    placement: Placement
    evicted: tuple[tuple[Running, EvictionReason], ...] = ()
    new_places: NewPlaces = ()


def plan_evictions(
    draft: Draft,
    wanted: PlacementRequest,
    running: Iterable[Running],
    reason: WhyEvict,
    now: float,
    *,
    short: Shortfall = NO_SHORTFALL,
    allowed: Callable[[Sequence[Running]], bool] = lambda evicted: True,
) -> EvictionPlan | None:
    """The jobs to evict, and why, so that the request fits and nothing is `short`; None if no evictions achieve that.

    No job is evicted if the request fits once the jobs that are already stopping are gone.
    The least urgent job (with the highest priority number) is evicted first, then the one that loses the least work in
    GPU-seconds. As few jobs as possible are evicted. If several nodes would do, the choice is the node whose most
    urgent victim is least urgent. Evictions that are not `allowed` together are not chosen.
    """
    running = list(running)
    gone = [one for one in running if one.job.phase is Phase.STOPPING]
    stopping = draft_without(draft, gone)
    for one in gone:
        short = short.without(one)
    placement = choose(stopping, wanted) if short.lifted else None
    if isinstance(placement, Placement):
        return EvictionPlan(placement)
    reasons = {one.job.id: why for one in running if one.runs and (why := reason(one)) is not None}
    candidates = sorted((one for one in running if one.job.id in reasons), key=lambda one: eviction_cost(one, now))
    chosen: list[Running] | None = None
    for some in _by_node(candidates, wanted) if short.lifted else _by_limits(candidates, wanted, short):
        enough = _fewest(stopping, wanted, some, short)
        better = enough is not None and (chosen is None or _cost(enough, now) < _cost(chosen, now))
        if enough is not None and better and allowed(enough):
            chosen = enough
    if chosen is None:
        return None
    placement = choose(draft_without(stopping, chosen), wanted)
    assert isinstance(placement, Placement), "the chosen victims make the request fit"
    return EvictionPlan(placement, tuple((one, reasons[one.job.id]) for one in chosen))


def eviction_cost(one: Running, now: float) -> tuple[float, float, int]:
    """A sort key, lowest first: by urgency, then by lost work in GPU-seconds, then the latest submitted first."""
    return (-one.job.spec.priority, _lost(one, now), -one.job.sequence)


def _lost(one: Running, now: float) -> float:
    """GPU-seconds of work that are lost if it is evicted."""
    return one.allocation.gpus * max(0.0, now - one.unsaved_since)


def _cost(some: Sequence[Running], now: float) -> tuple[float, float, int, tuple[str, ...]]:
    urgent = max(-one.job.spec.priority for one in some)
    return urgent, sum(_lost(one, now) for one in some), len(some), tuple(sorted(one.job.id for one in some))


def _by_node(candidates: Sequence[Running], wanted: PlacementRequest) -> list[list[Running]]:
    """The candidates on each node, or one list of all candidates for a gang that may use several nodes."""
    if wanted.request.gang_size > 1 and not wanted.request.one_node:
        return [list(candidates)]
    names = sorted({member.node for one in candidates for member in one.allocation.placement.members})
    return [
        [one for one in candidates if any(member.node == name for member in one.allocation.placement.members)]
        for name in names
    ]


def _by_limits(candidates: Sequence[Running], wanted: PlacementRequest, short: Shortfall) -> list[list[Running]]:
    """The candidates on each node, then all, then all again, sorted by the number of limits that their end helps."""
    helpful = sorted(candidates, key=lambda one: -len(short.scopes_of(one)))
    return [*_by_node(candidates, wanted), list(candidates), helpful]


def _fewest(
    draft: Draft, wanted: PlacementRequest, candidates: Sequence[Running], short: Shortfall
) -> list[Running] | None:
    """The fewest candidates, cheapest first, whose eviction makes the request fit; None if all together do not."""
    taken: list[Running] = []
    trial = draft.branch()
    for one in candidates:
        if short.lifted and fits(trial, wanted):
            break
        trial.give(one.allocation.placement.members)
        short = short.without(one)
        taken.append(one)
    if not short.lifted or not fits(trial, wanted):
        return None
    for one in reversed(list(taken)):
        spared = short.with_again(one)
        others = [other for other in taken if other is not one]
        if spared.lifted and fits(draft_without(draft, others), wanted):
            taken, short = others, spared
    return taken


def draft_without(draft: Draft, some: Iterable[Running]) -> Draft:
    """A copy of the draft in which these jobs hold nothing."""
    draft_without = draft.branch()
    for one in some:
        draft_without.give(one.allocation.placement.members)
    return draft_without
