"""The end of a job, from the end of its launch, by itself or after a stop."""

from collections.abc import Sequence
from dataclasses import replace

from corral.core.lifecycle.following import followers
from corral.core.lifecycle.input import spent
from corral.core.lifecycle.phase_changes import back_to_queue, change, closed_eviction, give_back, measured, moves_off
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.fact import Fact, JobChanged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_patch import JobPatch, patched
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Again, LaunchPhase, LaunchReport
from corral.core.model.units import format_duration
from corral.core.model.view import View

INTERRUPTED = 130
"""The exit code of a program that ends on SIGINT. A person wanted the end, so it is not tried again."""


def ended(view: View, job: Job, report: LaunchReport, *, by: str, at: float, backoff: Backoff) -> list[Fact]:
    """Return the facts of a job whose launch has ended: a terminal phase, or the return to the queue while attempts
    remain.
    """
    phase, reason = _ending(job, report)
    started_at, ended_at = (measured(view, job, moment, at) for moment in (report.started_at, report.ended_at))
    ended_at = at if ended_at is None else ended_at
    attempts = job.attempts + (job.phase is Phase.STARTING or job.started_at is None)
    freed = give_back(view, job, by=by, at=at)
    if phase is Phase.PENDING:
        since = job.started_at if started_at is None else started_at
        ran_s = 0.0 if since is None else max(0.0, ended_at - since)
        room = closed_eviction(view, job, ran_s, ended_at)
        return [back_to_queue(job, {**room, "attempts": attempts}, by=by, at=at), *freed]
    outcome = JobPatch(
        exit_code=report.exit_code, signal=report.signal, reason=reason, ended_at=ended_at, attempts=attempts
    )
    if started_at is not None:
        outcome["started_at"] = started_at
    first = change(job, {**outcome, "phase": phase}, by=by, at=at)
    final = spent(job) is not None or report.exit_code == INTERRUPTED or report.again is Again.NEVER
    if phase in (Phase.FAILED, Phase.LOST) and attempts - job.site_faults <= job.spec.retries and not final:
        again = replace(job, phase=phase)
        return [first, back_to_queue(again, {"eligible_at": at + backoff.after(attempts)}, by=by, at=at), *freed]
    return [first, *freed, *followers(view, job, phase, by=by, at=at)]


def stopped_at_once(view: View, job: Job, stop: Sequence[Fact], *, by: str, at: float) -> list[Fact]:
    """Return the facts of `stop`, which stop the job, and those of its end at the same time. For simulated work
    only.
    """
    for fact in stop:
        if isinstance(fact, JobChanged):
            job = patched(job, fact.changes)
    report = LaunchReport(job.allocation_id or "", LaunchPhase.EXITED, ended_at=at, ending=Phase.CANCELLED)
    return [*stop, *ended(view, job, report, by=by, at=at, backoff=Backoff())]


def _ending(job: Job, report: LaunchReport) -> tuple[Phase, str | None]:
    if report.phase in (LaunchPhase.DEAD, LaunchPhase.DECLARED_LOST):
        if job.phase is Phase.STOPPING and job.stop_reason in (Phase.CANCELLED, Phase.FAILED, Phase.TIMED_OUT):
            return job.stop_reason, job.reason
        if job.phase is Phase.STOPPING and moves_off(job) and spent(job) is None:
            return Phase.PENDING, job.reason
        return Phase.LOST, report.reason or "its supervisor died and left no record of how the job ended"
    ending = report.ending or Phase.FAILED
    if job.phase is Phase.STOPPING and ending is not Phase.TIMED_OUT:
        if job.stop_reason is Phase.PENDING and (why := spent(job)) is not None:
            return Phase.FAILED, f"{job.reason}; {why}"
        return job.stop_reason or Phase.CANCELLED, job.reason
    if ending is Phase.CANCELLED:
        return Phase.FAILED, report.reason or "something other than Corral told its supervisor to stop"
    if ending is Phase.TIMED_OUT and job.spec.time_limit_s is not None:
        return ending, report.reason or f"its time limit of {format_duration(job.spec.time_limit_s)}"
    return ending, report.reason
