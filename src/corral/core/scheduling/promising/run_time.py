"""Estimates how long a job runs: by its time limit, and by earlier runs of its user's jobs of the same name."""

from collections.abc import Mapping
from math import inf

from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation

Durations = Mapping[tuple[str, str], tuple[float, ...]]


def run_estimate_s(job: Job, durations: Durations) -> float | None:
    """The expected run time in seconds: the longest recent run of that name, at most the time limit; None: unknown.

    It is the longest run, because a job that runs longer than estimated may delay a job ahead of it.
    """
    limit = job.spec.time_limit_s
    runs = durations.get((job.spec.user, job.spec.name)) if job.spec.name else None
    if not runs:
        return limit
    longest = max(runs)
    return longest if limit is None else min(longest, limit)


def expected_end(job: Job, allocation: Allocation, now: float, durations: Durations) -> float:
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
