"""The parts of a job's steps: a change of phase, the return to the queue, devices that become free."""

from dataclasses import replace

from corral.core.model.fact import AllocationEnded, Fact, JobChanged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import NEXT_PHASES, Phase
from corral.core.model.placing.eviction import Eviction, EvictionRule
from corral.core.model.view import View

CLOCK_SLACK_S = 86_400.0
"""A wall clock that is set while a job runs moves by less than this. A reported time that is further off is not a
measurement.
"""


def change(job: Job, changes: JobPatch, *, by: str, at: float) -> JobChanged:
    """Return the change of `job` to another phase. A change that `NEXT_PHASES` does not allow is a broken invariant."""
    assert changes["phase"] in NEXT_PHASES[job.phase], f"job {job.id}: {job.phase} -> {changes['phase']} is not legal"
    return JobChanged(job.id, changes, at=at, by=by)


def back_to_queue(job: Job, changes: JobPatch, *, by: str, at: float) -> JobChanged:
    """Return the change of `job` to PENDING, with other `changes` of its fields."""
    waiting = JobPatch(phase=Phase.PENDING, allocation_id=None, stop_reason=None, reason=None)
    return change(job, {**waiting, **changes}, by=by, at=at)


def held_by_server(job: Job, because: str, *, by: str, at: float) -> JobChanged:
    """Return the hold of a job that only an administrator may release. `because` has no full stop."""
    return JobChanged(job.id, {"held": True, "held_because": because}, at=at, by=by)


def requeued(job: Job) -> Job:
    """Return a job that has ended as it waits again."""
    return replace(job, phase=Phase.PENDING, allocation_id=None, reason=None, eligible_at=None, launch_failures=0)


def give_back(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    """Return the fact that the job's devices are free; no facts if it has no allocation."""
    if job.allocation_id is None or job.allocation_id not in view.allocations:
        return []
    eviction, saved_at = job.evicted, view.saved.get(job.allocation_id)
    made_room = eviction is not None and job.stop_reason is Phase.PENDING
    lost_from = _lost_from(view, job, eviction) if eviction is not None and made_room else None
    unbilled_from = lost_from if moves_off(job) else None
    return [AllocationEnded(job.allocation_id, job.id, lost_from, (), saved_at, unbilled_from, at=at, by=by)]


def moves_off(job: Job) -> bool:
    """Return whether the job is stopped because one of its devices fell sick, to go on elsewhere."""
    eviction = job.evicted
    return eviction is not None and eviction.rule is EvictionRule.FAULT and job.stop_reason is Phase.PENDING


def _lost_from(view: View, job: Job, eviction: Eviction) -> float:
    """Return the time from which on the work of an evicted launch is lost: after its last checkpoint, and after the
    signal to save it, if there was one (Unix seconds).
    """
    unsaved_since = view.unsaved_since(view.allocations[job.allocation_id or ""])
    return max(unsaved_since, eviction.at) if eviction.saves else unsaved_since


def closed_eviction(view: View, job: Job, ran_s: float, ended_at: float) -> JobPatch:
    """Return the changes that complete the record of an eviction once the stopped launch is over."""
    eviction = job.evicted
    if eviction is None:
        return {}
    lost_s = min(ran_s, max(0.0, ended_at - _lost_from(view, job, eviction)))
    closed = JobPatch(eviction=replace(eviction, ran_s=ran_s, lost_s=lost_s), lost_s=job.lost_s + lost_s)
    if eviction.rule is EvictionRule.FAULT:
        return {**closed, "site_faults": job.site_faults + 1}
    return {**closed, "evictions": job.evictions + 1}


def measured(view: View, job: Job, reported: float | None, at: float) -> float | None:
    """Return a time from a launch's report. None if it is impossible: the job may have written the report itself."""
    allocation = view.allocations.get(job.allocation_id or "")
    since = 0.0 if allocation is None else allocation.created_at
    return reported if reported is not None and since - CLOCK_SLACK_S <= reported <= at + CLOCK_SLACK_S else None
