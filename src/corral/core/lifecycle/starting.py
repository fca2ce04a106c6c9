"""The start of a job: it is allocated, launched and runs, or its launch fails and it waits again."""

from dataclasses import replace

from corral.core.lifecycle.following import followers
from corral.core.lifecycle.phase_changes import back_to_queue, change, closed_eviction, give_back, measured
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.devices.means import Enforcement
from corral.core.model.fact import AllocationMade, Fact, JobChanged
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, GpuInfo, Placement
from corral.core.model.runs.launch import Again
from corral.core.model.view import View

MAX_LAUNCH_FAILURES = 5
"""The number of failed launches in a row, caused by the machine, after which the job itself fails."""

_LACK_FAILURES = 6
"""A job waits for a resource that its node lacks for now as long as after this many failures: half a minute by default.
"""


def start(
    job: Job,
    placement: Placement,
    *,
    by: str,
    at: float,
    gpu_info: GpuInfo | None = None,
    waited: tuple[tuple[str, float], ...] = (),
    enforcement: Enforcement | None = None,
) -> list[Fact]:
    """Allocate devices to a job: PENDING -> STARTING. `waited` is how the job spent the time until now."""
    allocation = replace(_allocation(job, placement, at), gpu_info=gpu_info, enforcement=enforcement)
    moved = change(job, {**_allocated(job, allocation), "waited": waited}, by=by, at=at)
    return [moved, AllocationMade(allocation, at=at, by=by)]


def running(view: View, job: Job, started_at: float | None, *, by: str, at: float) -> list[Fact]:
    """Record that the job runs, by its supervisor's report: STARTING -> RUNNING.

    A job that runs already, or is being stopped, gets only a missing start time.
    """
    started_at = measured(view, job, started_at, at)
    if job.phase is Phase.STARTING:
        begun = replace(job, started_at=at if started_at is None else started_at)
        first = change(job, _running(job, begun.started_at), by=by, at=at)
        return [first, *followers(view, begun, Phase.RUNNING, by=by, at=at)]
    if job.started_at is None and started_at is not None:
        return [JobChanged(job.id, {"started_at": started_at}, at=at, by=by)]
    return []


def start_at_once(view: View, job: Job, placement: Placement, *, by: str, at: float) -> list[Fact]:
    """Return the facts of `start` and `running` in one step. For simulated or forecast work, which is not launched."""
    assert job.phase is Phase.PENDING, f"job {job.id} is {job.phase}"
    allocation = _allocation(job, placement, at)
    changes: JobPatch = {**_allocated(job, allocation), **_running(job, at)}
    facts = [JobChanged(job.id, changes, at=at, by=by), AllocationMade(allocation, at=at, by=by)]
    if job.id not in view.dependants:
        return facts
    return [*facts, *followers(view, replace(job, started_at=at), Phase.RUNNING, by=by, at=at)]


def next_allocation_id(job: Job) -> str:
    """Return the id of the next allocation of a waiting job."""
    return f"{job.id}.{job.launches + 1}"


def _allocation(job: Job, placement: Placement, at: float) -> Allocation:
    return Allocation(
        id=next_allocation_id(job),
        job_id=job.id,
        user=job.spec.user,
        placement=placement,
        created_at=at,
        attempt=job.attempts + 1,
        reserved=job.spec.kind is JobKind.RESERVE,
    )


def _allocated(job: Job, allocation: Allocation) -> JobPatch:
    return {
        "phase": Phase.STARTING,
        "launches": job.launches + 1,
        "allocation_id": allocation.id,
        "devices": allocation.placement.uuids,
        "eligible_at": None,
        "exit_code": None,
        "signal": None,
        "reason": None,
        "started_at": None,
        "ended_at": None,
    }


def _running(job: Job, started_at: float | None) -> JobPatch:
    return {"phase": Phase.RUNNING, "started_at": started_at, "attempts": job.attempts + 1, "launch_failures": 0}


def launch_failed(
    view: View, job: Job, message: str, *, by: str, at: float, backoff: Backoff, again: Again = Again.AS_ASKED
) -> list[Fact]:
    """Return the facts of a launch in which nothing ran: back to PENDING with a backoff, or FAILED after too many
    failures.

    A job that was being stopped ends as its stop demands.
    """
    if job.phase is Phase.STOPPING:
        return _stopped_before_it_ran(view, job, by=by, at=at)
    freed = give_back(view, job, by=by, at=at)
    if again is Again.ALWAYS:
        later = JobPatch(reason=message, eligible_at=at + backoff.after(_LACK_FAILURES))
        return [back_to_queue(job, later, by=by, at=at), *freed]
    failures = job.launch_failures + 1
    if again is Again.NEVER or failures >= MAX_LAUNCH_FAILURES:
        several = f"it could not be launched {failures} times in a row; the last time: "
        reason = message if again is Again.NEVER else several + message
        first = change(
            job, JobPatch(phase=Phase.FAILED, ended_at=at, reason=reason, launch_failures=failures), by=by, at=at
        )
        return [first, *freed, *followers(view, job, Phase.FAILED, by=by, at=at)]
    later = JobPatch(reason=message, launch_failures=failures, eligible_at=at + backoff.after(failures))
    return [back_to_queue(job, later, by=by, at=at), *freed]


def never_ran(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    """Send a job back to the queue at once whose launch was cut off before anything ran (for example, the server
    crashed).

    A job that was being stopped ends as its stop demands.
    """
    if job.phase is Phase.STOPPING:
        return _stopped_before_it_ran(view, job, by=by, at=at)
    return [back_to_queue(job, {}, by=by, at=at), *give_back(view, job, by=by, at=at)]


def _stopped_before_it_ran(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    ending = job.stop_reason or Phase.CANCELLED
    freed = give_back(view, job, by=by, at=at)
    if ending is Phase.PENDING:
        return [back_to_queue(job, closed_eviction(view, job, 0.0, at), by=by, at=at), *freed]
    first = change(job, JobPatch(phase=ending, ended_at=at, reason=job.reason), by=by, at=at)
    return [first, *freed, *followers(view, job, ending, by=by, at=at)]
