"""Estimates how long a job runs: by its time limit, and by the runs of earlier jobs that were like it."""

from math import inf

from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation
from corral.core.model.runs.prediction import PastOfUsers, groups_of


def run_estimate_s(job: Job, durations: PastOfUsers) -> float | None:
    """The expected run time in seconds: that which nine of ten such jobs do not exceed; None: unknown.

    It is no median, because a job that runs longer than estimated may delay a job ahead of it. One earlier job of the
    same name is enough. The user's other jobs count only for a job without a time limit, and if there are enough. No
    estimate exceeds the limit.
    """
    limit = job.spec.time_limit_s
    past = durations.get(job.spec.user)
    if past is None:
        return limit
    groups = groups_of(job.spec)
    found = past.predict([group for group in groups if group.name], least=1)
    if found is None and limit is None:
        found = past.predict(groups)
    if found is None:
        return limit
    return found.p90 if limit is None else min(found.p90, limit)


def expected_end(job: Job, allocation: Allocation, now: float, durations: PastOfUsers) -> float:
    """The time at which the job is expected to release its devices, in Unix seconds; infinity if it is not known.

    A stopping job releases them now, or at the end of the time that it has to save its work. If a job has run longer
    than its estimate, the estimate doubles until it is long enough, but never exceeds the time limit.
    """
    if job.phase is Phase.STOPPING:
        eviction = job.evicted
        saved_at = eviction.at + job.spec.checkpoint_grace_s if eviction is not None and eviction.saves else now
        return max(now, saved_at)
    estimate = run_estimate_s(job, durations)
    if estimate is None:
        return inf
    start = job.started_at if job.started_at is not None else allocation.created_at
    limit = job.spec.time_limit_s
    elapsed = now - start
    while estimate < elapsed and estimate != limit:
        estimate = max(1.0, 2 * estimate) if limit is None else min(max(1.0, 2 * estimate), limit)
    return max(now, start + estimate)
