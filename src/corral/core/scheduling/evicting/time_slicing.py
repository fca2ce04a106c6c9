"""Time slicing: a job whose quantum is over is evicted for one that ranks before it, and waits in its queue again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from math import inf

from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.plan import Evict
from corral.core.model.units import format_duration
from corral.core.scheduling.evicting.victims import Running, draft_without
from corral.core.scheduling.placing.node_by_node import choose, speed_on
from corral.core.scheduling.policy import Policy
from corral.core.scheduling.queueing.admission import Admission
from corral.core.scheduling.queueing.order import OrderContext, Rank, Ranking
from corral.core.scheduling.queueing.pools import Pools
from corral.core.scheduling.state.draft import Draft, PlacementRequest
from corral.core.scheduling.state.neighbours import resident_of
from corral.core.scheduling.state.timeline import changed

WAITING_LOOKED_AT = 500
"""The most waiting jobs that are considered in place of running ones: those that rank first."""


def quantum_expired(running: Iterable[Running], policy: Policy, now: float) -> list[Running]:
    """The running jobs whose quantum, counted from their last start, is over."""
    quantum_s = policy.quantum_s
    if quantum_s is None:
        return []
    return [one for one in running if one.runs and now - one.allocation.created_at >= quantum_s]


@dataclass(frozen=True, slots=True)
class TimeSlices:
    """Time slicing in one queue, for one cycle."""

    draft: Draft
    ranking: Ranking
    context: OrderContext
    jobs: Mapping[str, Job]
    policy: Policy
    admission: Admission
    pools: Pools

    def evictions(self, waiting: Sequence[tuple[Rank, str]], expired: Sequence[Running]) -> list[Evict]:
        """The evictions among `expired`. These jobs and the waiting jobs are placed by rank, as if none held devices.

        A job is evicted if it then has no place or no quota, or if a faster place than its own is free. A job stays
        where it is if no job of lower rank takes its devices.
        """
        if not waiting or not expired:
            return []
        ideal = draft_without(self.draft, expired)
        admission = self.admission.without((one.job, one.allocation.placement) for one in expired)
        running = {one.job.id: one for one in expired}
        ranked = sorted((self.ranking.rank(one.job, self.context), one.job.id) for one in expired)
        evictions: list[Evict] = []
        winner: str | None = None
        for _, job_id in merge(waiting[:WAITING_LOOKED_AT], ranked):
            job = self.jobs[job_id]
            wanted = self.pools.placement_request(job, inf)
            if any(self.pools.owns_any(one.job, wanted.lending_pools) for one in expired):
                wanted = wanted.without_lent()  # an evicted owner will reclaim what its pool lends
            if job_id in running:
                placement = running[job_id].allocation.placement
                if admission.exceeded(job, placement) is None and _stays(ideal, running[job_id], wanted, self.policy):
                    admission.started(job, placement)
                else:
                    evictions.append(self._evict(job_id, winner))
                continue
            if admission.barrier(job) is not None:
                continue
            found = choose(ideal, wanted, self.policy.prefer)
            if isinstance(found, Placement):
                ideal.take(found.members, inf, resident_of(job))
                admission.started(job, found)
                winner = winner or job_id
        return evictions

    def _evict(self, job_id: str, winner: str | None) -> Evict:
        if winner is None:
            return Evict(job_id, job_id, "it moves to faster GPUs", EvictionRule.FASTER_GPUS)
        quantum = format_duration(self.policy.quantum_s or 0.0)
        text = f"it had its turn of {quantum} and makes room for job {winner}"
        return Evict(job_id, winner, text, EvictionRule.TIME_SLICE)


def _stays(ideal: Draft, one: Running, wanted: PlacementRequest, policy: Policy) -> bool:
    """Whether the job stays, as its devices are free and no faster place is. Takes the job's new place in the draft."""
    placement = one.allocation.placement
    stay = _free(ideal, placement)
    if stay and not wanted.speeds:
        ideal.take(placement.members, inf, resident_of(one.job))
        return True
    found = choose(ideal, wanted, policy.prefer)
    faster = isinstance(found, Placement) and _speed(ideal, wanted, found) > _speed(ideal, wanted, placement)
    if stay and not faster:
        ideal.take(placement.members, inf, resident_of(one.job))
        return True
    if isinstance(found, Placement):
        ideal.take(found.members, inf, resident_of(one.job))
    return False


def _free(ideal: Draft, placement: Placement) -> bool:
    for member in placement.members:
        slots = ideal.capacity.slots_of(member)
        after = changed(ideal.free(member.node), member, slots, -1)
        host = min(after.cpu_milli, after.memory_mib, after.disk_mib)
        if host < 0 or any(after.slots[i].free_milli < 0 for i in slots):
            return False
    return True


def _speed(draft: Draft, wanted: PlacementRequest, placement: Placement) -> float:
    """The job's speed on the slowest device of the placement."""
    held = ((draft.free(member.node), draft.capacity.slots_of(member)) for member in placement.members)
    models = [state.slots[index].model for state, slots in held for index in slots]
    return min((speed_on(wanted.speeds, model) for model in models), default=1.0)
