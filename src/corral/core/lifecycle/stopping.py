"""The stop of a live job: in favour of other jobs, for its own acts, or at its time limit. Its end is recorded
later.
"""

from corral.core.lifecycle.phase_changes import change
from corral.core.model.fact import Fact
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.eviction import Eviction, EvictionRule
from corral.core.model.placing.plan import Evict
from corral.core.model.runs.launch import LaunchReport
from corral.core.model.units import format_duration
from corral.core.model.view import View

OVERDUE_S = 5.0
"""If a job still runs this long after its time limit and its grace period, the server ends it."""
START_S = 60.0
"""The longest time from a launch to the execution of the program, even from a slow file server."""


def may_stop(job: Job) -> bool:
    """Return whether the job is live and was not told to stop yet."""
    return job.phase in (Phase.STARTING, Phase.RUNNING)


def notice_s(job: Job) -> float:
    """Return how many seconds before a stop, for others or for a drained node, the job is signalled to save its
    work.
    """
    saves = job.spec.checkpoint_signal is not None and job.phase is Phase.RUNNING
    return job.spec.checkpoint_grace_s if saves else 0.0


def stop(
    job: Job,
    ending: Phase,
    reason: str,
    *,
    by: str,
    at: float,
    rule: EvictionRule | None = None,
    for_job_id: str | None = None,
) -> list[Fact]:
    """Stop a live job, to end in `ending`: live -> STOPPING. Return no facts if the job is no longer live.

    With a `rule` the rule stops the job in favour of other jobs, or of job `for_job_id`.
    """
    if not may_stop(job):
        return []
    changes = JobPatch(stop_reason=ending, reason=reason)
    if rule is not None:
        changes["eviction"] = Eviction(rule, for_job_id, reason, at, job.allocation_id or "")
    return [change(job, {**changes, "phase": Phase.STOPPING}, by=by, at=at)]


def evict(job: Job, eviction: Evict, *, by: str, at: float, signalled: bool = True) -> list[Fact]:
    """Evict a live job: live -> STOPPING, on its way back to the queue. Return no facts if the job is no longer
    live.

    If it is not to be `signalled`, it is stopped at once, even if it has a checkpoint signal.
    """
    if not may_stop(job):
        return []
    counted = Eviction(
        eviction.rule,
        None if eviction.for_job_id == job.id else eviction.for_job_id,
        eviction.reason,
        at,
        job.allocation_id or "",
        lender=eviction.lender,
        saves=signalled and notice_s(job) > 0,
    )
    return [
        change(
            job,
            JobPatch(phase=Phase.STOPPING, stop_reason=Phase.PENDING, reason=eviction.reason, eviction=counted),
            by=by,
            at=at,
        )
    ]


def overdue(job: Job, report: LaunchReport, grace_s: float, *, by: str, at: float) -> list[Fact]:
    """Stop a job that has outlived its time limit: live -> STOPPING, to end TIMED_OUT. Return no facts before that.

    The job's supervisor enforces the limit, unless the job has stopped the supervisor, or it is stuck.
    """
    limit_s = job.spec.time_limit_s
    if limit_s is None or report.age_s is None:
        return []
    if job.started_at is None:
        # The signal may have stopped the process that reports that the program runs, or the program has not started
        # yet.
        late_s = report.age_s - START_S - limit_s
    else:
        # A wall clock may have been set meanwhile, and a supervisor may have waited long before the program ran.
        late_s = min(report.age_s, at - job.started_at) - limit_s
    if late_s <= grace_s + OVERDUE_S:
        return []
    reason = (
        f"its time limit of {format_duration(limit_s)}; its supervisor was stopped or stuck, so the server ended "
        f"the job {format_duration(late_s)} late"
    )
    return stop(job, Phase.TIMED_OUT, reason, by=by, at=at)


def live(view: View) -> tuple[Job, ...]:
    """Return the jobs with a live allocation, in order of submission."""
    return tuple(sorted((j for j in view.jobs.values() if j.allocation_id in view.allocations), key=_sequence))


def _sequence(job: Job) -> int:
    return job.sequence
