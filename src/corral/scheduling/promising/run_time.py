"""How long a job will run, as far as anybody knows: its time limit, or what its user's jobs of that name took."""

from collections.abc import Mapping
from math import inf

from corral.model.allocation import Allocation
from corral.model.job import Job, Phase

Durations = Mapping[tuple[str, str], tuple[float, ...]]


def run_estimate_s(job: Job, durations: Durations) -> float | None:
    """Seconds that the job will run: the longest of the last runs of that name, at most its limit; None: unknown.

    The longest, because an estimate that is too short would let a job start that delays the one it should not.
    """
    limit = job.spec.time_limit_s
    runs = durations.get((job.spec.user, job.spec.name)) if job.spec.name else None
    if not runs:
        return limit
    longest = max(runs)
    return longest if limit is None else min(longest, limit)


def expected_end(job: Job, allocation: Allocation, now: float, durations: Durations) -> float:
    """When the job will give its devices back, in Unix seconds; infinity where nobody knows.

    That is now if it is stopping, or when the time is up that it has to save its work.

    One that has outlived its estimate is expected to double it, then again, but never to pass its time limit.
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
