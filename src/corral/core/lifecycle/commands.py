"""The steps that users take with a job: cancel it, hold it, release it, run it again."""

from corral.core.lifecycle.device_faults import keep_off
from corral.core.lifecycle.following import followers
from corral.core.lifecycle.input import spent
from corral.core.lifecycle.phase_changes import change, give_back, requeued
from corral.core.lifecycle.stopping import stop
from corral.core.lifecycle.user_faults import trusted_again
from corral.core.model.errors import Conflict
from corral.core.model.fact import Fact, JobChanged, JobRequeued
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View


def cancel(view: View, job: Job, *, by: str, at: float, reason: str | None = None) -> list[Fact]:
    """Cancel a job: PENDING -> CANCELLED at once; a live job -> STOPPING. Raises Conflict if the job has ended."""
    reason = reason or f"cancelled by {by}"
    if job.phase is Phase.PENDING:
        first = change(job, JobPatch(phase=Phase.CANCELLED, ended_at=at, reason=reason), by=by, at=at)
        return [first, *followers(view, job, Phase.CANCELLED, by=by, at=at)]
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        return [change(job, JobPatch(phase=Phase.STOPPING, stop_reason=Phase.CANCELLED, reason=reason), by=by, at=at)]
    if job.phase is Phase.STOPPING:
        return [JobChanged(job.id, {"stop_reason": Phase.CANCELLED, "reason": reason}, at=at, by=by)]
    raise Conflict(f"job {job.id} has already ended ({job.phase}); there is nothing left to cancel")


def requeue(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    """Stop a live job and let it wait again; let a failed or lost job wait again. Raises Conflict otherwise."""
    if job.spec.kind is not JobKind.RUN:
        raise Conflict(f"job {job.id} is {_article(job.spec.kind)}; only jobs that Corral has started can run again")
    if job.phase in (Phase.STARTING, Phase.RUNNING) and (why := spent(job)) is not None:
        raise Conflict(f"job {job.id}: {why}; cancel it, and submit it anew")
    if job.phase in (Phase.FAILED, Phase.LOST) and job.spec.takes_input:
        raise Conflict(f"job {job.id} took its input from a command that has ended; submit it anew")
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        return stop(job, Phase.PENDING, f"requeued by {by}", by=by, at=at)
    if job.phase in (Phase.FAILED, Phase.LOST):
        return [JobRequeued(requeued(job), at=at, by=by)]
    hint = f"; `corral show {job.id}` has its command, to submit it anew" if job.phase.terminal else ""
    raise Conflict(f"job {job.id} is {job.phase}; only a job that runs, failed or was lost can be requeued{hint}")


def _article(kind: JobKind) -> str:
    return {JobKind.RESERVE: "a reservation", JobKind.ADOPT: "an adopted process", JobKind.RUN: "a job"}[kind]


def hold(job: Job, held: bool, *, by: str, at: float) -> list[Fact]:
    """Set or lift the hold of a waiting job. Return no facts if nothing changes.

    Raises Conflict if the job no longer waits.
    """
    if job.phase is not Phase.PENDING:
        verb = "held" if held else "released"
        raise Conflict(f"job {job.id} is {job.phase}; only a job that waits can be {verb}")
    if job.held is held:
        return []
    changes = JobPatch(held=held) if job.held_because is None else JobPatch(held=held, held_because=None)
    return [JobChanged(job.id, changes, at=at, by=by)]


def release(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    """Lift the hold of a waiting job, or end a reservation: RUNNING -> SUCCEEDED at once. Raises Conflict otherwise.

    Corral runs nothing in a reservation, so its devices are free at once. A waiting job that is not held keeps off no
    device any more.
    """
    if job.spec.kind is JobKind.RESERVE and job.phase is Phase.RUNNING:
        first = change(job, JobPatch(phase=Phase.SUCCEEDED, ended_at=at, reason=f"released by {by}"), by=by, at=at)
        return [
            first,
            *give_back(view, job, by=by, at=at),
            *followers(view, job, Phase.SUCCEEDED, by=by, at=at),
        ]
    if job.phase is Phase.PENDING and not job.held and job.spec.request.avoided:
        return [keep_off(job, (), by=by, at=at)]
    trusted = trusted_again(view, job, by=by, at=at) if job.held_because is not None else []
    return [*hold(job, False, by=by, at=at), *trusted]
