"""Foresees the moves that the scheduler would make now, by its own planner over a copy of the view. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from corral.core.lifecycle.ending import stopped_at_once
from corral.core.lifecycle.starting import start_at_once
from corral.core.lifecycle.stopping import evict
from corral.core.model.fact import Fact, MovesAllowed, ServerPart, StartsPromised
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.plan import Evict, Plan, Start
from corral.core.model.view import View
from corral.core.scheduling.forecast import MakePlanner

MOST_ROUNDS = 50
"""The most rounds of decisions that are foreseen. Each round moves jobs for one waiting job, or empties one node."""


@dataclass(frozen=True, slots=True)
class ForeseenMoves:
    """The moves, and the starts of the jobs that they are for."""

    moves: tuple[Evict, ...]
    starts: tuple[Start, ...]


def moves_now(view: View, now: float, make_planner: MakePlanner) -> ForeseenMoves:
    """The moves that the scheduler would make at `now` (Unix seconds), if it may move jobs and each stops at once."""
    planner = make_planner(view.advance([MovesAllowed(now + 1.0)]))
    moves: list[Evict] = []
    starts: list[Start] = []
    for _ in range(MOST_ROUNDS):
        plan = planner.plan(now)
        if not plan.starts and not plan.evictions:
            break
        moves += [one for one in plan.evictions if one.rule is EvictionRule.MOVE]
        starts += plan.starts
        planner.advance([*_evicted(planner.view, plan.evictions, now), *_started(planner.view, plan, now)])
        planner.advance([StartsPromised(plan.promises)])
    gain = {one.for_job_id for one in moves if one.for_job_id != one.job_id}
    return ForeseenMoves(tuple(moves), tuple(one for one in starts if one.job_id in gain))


def _started(view: View, plan: Plan, at: float) -> Iterable[Fact]:
    for start in plan.starts:
        yield from start_at_once(view, view.jobs[start.job_id], start.placement, by=ServerPart.SIMULATOR, at=at)


def _evicted(view: View, evictions: Sequence[Evict], at: float) -> Iterable[Fact]:
    for eviction in evictions:
        job = view.jobs[eviction.job_id]
        yield from stopped_at_once(
            view, job, evict(job, eviction, by=ServerPart.SIMULATOR, at=at), by=ServerPart.SIMULATOR, at=at
        )
