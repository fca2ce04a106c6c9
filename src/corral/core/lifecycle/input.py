"""The effect of a job's input. Input can be given only once, and a client has to send it."""

from corral.core.lifecycle.following import followers
from corral.core.lifecycle.phase_changes import change
from corral.core.lifecycle.stopping import stop
from corral.core.model.fact import Fact, JobChanged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View


def take(job: Job, *, by: str, at: float) -> list[Fact]:
    """Record that the program is about to receive its first input. Return no facts if this was recorded before."""
    return [] if job.input_taken else [JobChanged(job.id, JobPatch(input_taken=True), at=at, by=by)]


def spent(job: Job) -> str | None:
    """Return why a job that has run cannot run once more: its input was taken. None if it can."""
    if job.spec.terminal is not None:
        return "it does not run again, because its session is over"
    if job.input_taken:
        return "it does not run again, because the input that it has read cannot be given twice"
    return None


def give_up(view: View, job: Job, reason: str, *, by: str, at: float) -> list[Fact]:
    """End a job whose input no client sends any more: PENDING -> CANCELLED, a live job -> STOPPING.

    Return no facts if the job is ending already.
    """
    if job.phase is Phase.PENDING:
        first = change(job, JobPatch(phase=Phase.CANCELLED, ended_at=at, reason=reason), by=by, at=at)
        return [first, *followers(view, job, Phase.CANCELLED, by=by, at=at)]
    return stop(job, Phase.CANCELLED, reason, by=by, at=at)
