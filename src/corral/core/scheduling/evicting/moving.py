"""Moves running jobs to other places: so that a waiting job fits, or so that a node becomes empty.

Only jobs that may be moved take part. A job is moved by its eviction: it saves its work if it has a checkpoint signal,
goes back to its queue, and starts elsewhere. No job is moved unless all moved jobs find another place at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from corral.core.lifecycle.input import spent
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.plan import Evict
from corral.core.scheduling.evicting.victims import (
    EvictionPlan,
    EvictionReason,
    NewPlaces,
    Running,
    draft_without,
    eviction_cost,
    plan_evictions,
)
from corral.core.scheduling.placing.node_by_node import choose
from corral.core.scheduling.policy import Policy
from corral.core.scheduling.queueing.pools import Pools
from corral.core.scheduling.state.draft import Draft, PlacementRequest
from corral.core.scheduling.state.neighbours import resident_of

SETTLED_S = 3600.0
"""A job that started less than this long ago is not moved. So no job moves to and fro."""

_SPREADING = frozenset({"spread", "least-loaded", "round-robin", "availability"})
"""Scores that prefer empty nodes: jobs of such a policy would soon fill a node that was emptied."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves of one cycle. `running` is called only when moves are looked for."""

    running: Callable[[], list[Running]]
    policy_of: Mapping[str, Policy]
    pools: Pools

    def make_room(self, draft: Draft, job: Job, wanted: PlacementRequest, now: float) -> EvictionPlan | None:
        """The moves that make the job fit, with the new place of each moved job; None if there are none."""
        running = self.running()
        why = EvictionReason(EvictionRule.MOVE, f"it moves, so that job {job.id} can start")
        stopping = draft_without(draft, [one for one in running if one.job.phase is Phase.STOPPING])

        def new_places(moved: Sequence[Running]) -> NewPlaces | None:
            after = draft_without(stopping, moved)
            placed = choose(after, wanted)
            if not isinstance(placed, Placement):
                return None
            after.take(placed.members, wanted.until, resident_of(job))
            return self._new_places(after, moved, draft.capacity.names)

        found = plan_evictions(
            draft,
            wanted,
            running,
            lambda one: why if _movable(one, now) else None,
            now,
            allowed=lambda moved: new_places(moved) is not None,
        )
        return found and replace(found, new_places=new_places([one for one, _ in found.evicted]) or ())

    def empty_a_node(self, draft: Draft, now: float) -> tuple[tuple[Evict, ...], NewPlaces]:
        """The moves that empty the node whose jobs lose the least work, and the new places; none if no node can be.

        At most half of the node's devices are in use, and its jobs fit beside others, on nodes that are in use anyway.
        """
        running = self.running()
        on_node: dict[str, list[Running]] = {}
        for one in running:
            for name in sorted({member.node for member in one.allocation.placement.members}):
                on_node.setdefault(name, []).append(one)
        found: list[tuple[float, str, NewPlaces]] = []
        for name, jobs in on_node.items():
            others = tuple(other for other in on_node if other != name)
            if self._may_empty(draft, name, jobs, now):
                new_places = self._new_places(draft_without(draft, jobs), jobs, others)
                if new_places is not None:
                    found.append((sum(eviction_cost(one, now)[1] for one in jobs), name, new_places))
        if not found or any(one.job.phase is Phase.STOPPING for one in running):
            return (), ()
        _, name, new_places = min(found, key=lambda each: each[:2])
        reason = f"it moves, so that node {name} is empty for larger jobs"
        return tuple(Evict(job.id, job.id, reason, EvictionRule.MOVE) for job, _ in new_places), new_places

    def _may_empty(self, draft: Draft, name: str, jobs: Sequence[Running], now: float) -> bool:
        alone = all(len(one.allocation.placement.members) == 1 and one.allocation.gpus for one in jobs)
        packed = not any(score in _SPREADING for one in jobs for score, _ in self.policy_of[one.job.spec.queue].ranking)
        devices = draft.capacity.node(name).devices
        held = {uuid for one in jobs for uuid in one.allocation.placement.uuids}
        half = len(held) * 2 <= len(devices)
        return alone and packed and half and all(_movable(one, now) for one in jobs)

    def _new_places(self, draft: Draft, moved: Sequence[Running], among: tuple[str, ...]) -> NewPlaces | None:
        """A place on nodes `among` for each of these jobs, the largest first; None if one has none."""
        found: list[tuple[Job, Placement]] = []
        for one in sorted(moved, key=lambda one: (-one.allocation.gpus, one.job.sequence)):
            wanted = self.pools.placement_request(one.job, inf).ignoring_promises()
            placed = choose(draft, wanted, self.policy_of[one.job.spec.queue].prefer, among=among)
            if not isinstance(placed, Placement):
                return None
            draft.take(placed.members, inf, resident_of(one.job))
            found.append((one.job, placed))
        return tuple(found)


def _movable(one: Running, now: float) -> bool:
    settled = now - one.allocation.created_at >= SETTLED_S
    return one.runs and one.job.spec.movable and settled and spent(one.job) is None
