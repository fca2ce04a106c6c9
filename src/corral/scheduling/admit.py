"""Whether a job may start at all now, before anyone looks for a place: holds, dependencies, backoff, limits."""

from collections.abc import Mapping
from dataclasses import dataclass

from corral.model.job import Job, JobKind
from corral.model.plan import WaitReason


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the site; None is no limit. `max_running_jobs` counts jobs that Corral starts, not reservations."""

    max_running_jobs: int | None = None


@dataclass(frozen=True, slots=True)
class Barrier:
    """Why a job may not start yet. `until` is when that ends by itself, in Unix seconds."""

    reason: WaitReason
    detail: str
    until: float | None = None


def parked(job: Job, now: float) -> Barrier | None:
    """What keeps the job out of its queue: its user's hold, a job it waits for, a pause after a failed launch."""
    if job.held:
        return Barrier(WaitReason.HELD, "it is on hold")
    if job.waits_for:
        return Barrier(WaitReason.DEPENDENCY, ", ".join(job.waits_for))
    if job.eligible_at is not None and job.eligible_at > now:
        return Barrier(WaitReason.BACKOFF, f"after {job.attempts} attempts", until=job.eligible_at)
    return None


def limited(job: Job, running: int, of_array: Mapping[str, int], limits: Limits) -> Barrier | None:
    """The limit that is reached, with the numbers; None when the job may start.

    `running` counts jobs that Corral started and that have not ended, `of_array` those of each array.
    """
    if job.array_id is not None and job.array_limit is not None:
        live = of_array.get(job.array_id, 0)
        if live >= job.array_limit:
            return Barrier(WaitReason.ARRAY_LIMIT, f"{live} of at most {job.array_limit} elements run")
    counted = job.spec.kind is JobKind.RUN
    if counted and limits.max_running_jobs is not None and running >= limits.max_running_jobs:
        return Barrier(WaitReason.LIMIT, f"{running} of at most {limits.max_running_jobs} jobs run")
    return None
