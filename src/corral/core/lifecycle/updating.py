"""Changes the priority, time limit, name or queue of a job that has not ended."""

from corral.core.model.errors import Conflict, Refused
from corral.core.model.fact import JobUpdated
from corral.core.model.jobs.dependency import single
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_update import JobUpdate, changes_of, noted, sentence, values_before
from corral.core.model.jobs.phase import Phase


def may_go_on(job: Job) -> bool:
    """Return whether the job has not ended and is not being stopped for good."""
    return not job.phase.terminal and (job.phase is not Phase.STOPPING or job.stop_reason is Phase.PENDING)


def update(job: Job, asked: JobUpdate, *, by: str, at: float) -> list[JobUpdated]:
    """Return the fact that changes the job; no facts if the job has these values already.

    The caller checks permissions. Raises Conflict for a job that has ended or is about to, and if its phase does not
    allow the change. Raises Refused for another name if the job waits for earlier jobs of its own name.
    """
    if job.phase.terminal:
        raise Conflict(f"job {job.id} has already ended ({job.phase}); there is nothing left to change")
    if not may_go_on(job):
        raise Conflict(f"job {job.id} is being stopped ({job.reason or job.phase}); there is nothing left to change")
    changes = changes_of(job.spec, asked)
    if not changes:
        return []
    if "queue" in changes and job.phase is not Phase.PENDING:
        raise Conflict(
            f"job {job.id} is {job.phase} and counts to the quota of queue {job.spec.queue}; only a job that waits can "
            f"go to another queue (`corral requeue {job.id}` stops it and lets it wait again)"
        )
    if "name" in changes and single(job.spec.after):
        raise Refused(
            f"job {job.id} waits for earlier jobs named {job.spec.name} (--after singleton), so its name cannot change",
            field="name",
        )
    before = values_before(job.spec, changes)
    if job.phase is Phase.PENDING:
        # A waiting job has no log yet, or a log that the next attempt continues.
        changes["notes"] = noted(job.spec, sentence(before, changes, by))
    return [JobUpdated(job.id, changes, before, at=at, by=by)]
