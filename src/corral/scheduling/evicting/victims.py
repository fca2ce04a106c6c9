"""Making room: whom to end for a job that may preempt, with the least harm, and only if that makes it fit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from corral.model.allocation import Allocation, Placement
from corral.model.eviction import EvictionRule
from corral.model.job import Job, JobKind, Phase
from corral.scheduling.placing.node_by_node import choose
from corral.scheduling.state.draft import Draft, PlacementRequest


@dataclass(frozen=True, slots=True)
class Running:
    """A job that holds something, and what."""

    job: Job
    allocation: Allocation

    @property
    def runs(self) -> bool:
        """Whether it is a process that Corral started and that has not been told to stop."""
        return self.job.phase is Phase.RUNNING and self.job.spec.kind is JobKind.RUN


@dataclass(frozen=True, slots=True)
class EvictionReason:
    """By which rule a running job may be ended for the one that wants room, and in words."""

    rule: EvictionRule
    words: str
    lender: str | None = None


WhyEvict = Callable[[Running], EvictionReason | None]
"""Why a running job may be ended, None when it may not."""


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """The place that a job has once those evicted, each with the reason, and those that are stopping are gone."""

    placement: Placement
    evicted: tuple[tuple[Running, EvictionReason], ...] = ()


def plan_evictions(
    draft: Draft, wanted: PlacementRequest, running: Iterable[Running], reason: WhyEvict, now: float
) -> EvictionPlan | None:
    """Whom to end, and why, so that what is asked fits; None if it would not fit even so. Nobody is ended if it fits
    once those are gone that are stopping.

    Least harm: the least urgent (the highest priority number) first, then the least lost work in GPU-seconds, then the
    fewest jobs. Of the nodes that could be cleared, the one where the most urgent victim is least urgent.
    """
    running = list(running)
    stopping = draft.branch()
    for one in running:
        if one.job.phase is Phase.STOPPING:
            stopping.give(one.allocation.placement.members)
    placement = choose(stopping, wanted)
    if isinstance(placement, Placement):
        return EvictionPlan(placement)
    reasons = {one.job.id: why for one in running if one.runs and (why := reason(one)) is not None}
    candidates = sorted((one for one in running if one.job.id in reasons), key=lambda one: eviction_cost(one, now))
    chosen: list[Running] | None = None
    for some in _by_node(candidates, wanted):
        enough = _fewest(stopping, wanted, some)
        if enough is not None and (chosen is None or _cost(enough, now) < _cost(chosen, now)):
            chosen = enough
    if chosen is None:
        return None
    placement = choose(draft_without(stopping, chosen), wanted)
    assert isinstance(placement, Placement), "what was said to be enough is"
    return EvictionPlan(placement, tuple((one, reasons[one.job.id]) for one in chosen))


def eviction_cost(one: Running, now: float) -> tuple[float, float, int]:
    """What ending it would do, the least first: to something urgent, in lost work, to who came first."""
    return (-one.job.spec.priority, _lost(one, now), -one.job.sequence)


def _lost(one: Running, now: float) -> float:
    """GPU-seconds of work that ending it throws away."""
    return one.allocation.gpus * max(0.0, now - one.allocation.created_at)


def _cost(some: Sequence[Running], now: float) -> tuple[float, float, int, tuple[str, ...]]:
    urgent = max(-one.job.spec.priority for one in some)
    return urgent, sum(_lost(one, now) for one in some), len(some), tuple(sorted(one.job.id for one in some))


def _by_node(candidates: Sequence[Running], wanted: PlacementRequest) -> list[list[Running]]:
    """The candidates of each node, or all together for a gang, which may need several."""
    if wanted.request.gang_size > 1 and not wanted.request.one_node:
        return [list(candidates)]
    names = sorted({member.node for one in candidates for member in one.allocation.placement.members})
    return [
        [one for one in candidates if any(member.node == name for member in one.allocation.placement.members)]
        for name in names
    ]


def _fewest(draft: Draft, wanted: PlacementRequest, candidates: Sequence[Running]) -> list[Running] | None:
    """As few of the candidates as make room, the least harmful; None when all of them do not."""
    taken: list[Running] = []
    trial = draft.branch()
    for one in candidates:
        if isinstance(choose(trial, wanted), Placement):
            break
        trial.give(one.allocation.placement.members)
        taken.append(one)
    if not isinstance(choose(trial, wanted), Placement):
        return None
    for one in reversed(list(taken)):
        if isinstance(choose(draft_without(draft, [other for other in taken if other is not one]), wanted), Placement):
            taken.remove(one)
    return taken


def draft_without(draft: Draft, some: Iterable[Running]) -> Draft:
    """What would be free if these held nothing."""
    draft_without = draft.branch()
    for one in some:
        draft_without.give(one.allocation.placement.members)
    return draft_without
