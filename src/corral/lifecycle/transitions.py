"""What may happen to a job, as pure functions from a view to facts. The ledger runs them on its writer's thread.

Every function here returns the facts of one step, which happens at `at` (Unix seconds) and is caused by `by`, a user or
a `ServerPart`; none reads a clock, a disk or a driver.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from corral.model.allocation import Allocation, GpuInfo, Placement
from corral.model.dependency import (
    Condition,
    Dependency,
    Settled,
    clauses_of,
    conditions_to_keep,
    covers,
    settled_by,
    wait_for_ends_alone,
)
from corral.model.errors import Conflict
from corral.model.eviction import Eviction, EvictionRule
from corral.model.fact import AllocationEnded, AllocationMade, Fact, JobChanged, JobRequeued
from corral.model.job import NEXT_PHASES, TERMINAL_PHASES, Job, JobKind, Phase
from corral.model.job_patch import JobPatch, patched
from corral.model.launch import LaunchPhase, LaunchReport
from corral.model.means import Enforcement
from corral.model.plan import Evict
from corral.model.units import format_duration
from corral.model.view import View

LONG_WAIT = 64
"""A job that waits for more than so many has its list shortened by half at a time: to write the list of what is left at
the end of each of ten thousand would fill the disk."""

MAX_LAUNCH_FAILURES = 5
"""So many launches in a row may fail on the machine's side before the job itself is failed."""


OVERDUE_S = 5.0
"""So long after its time limit and the grace a job must have ended; else the server ends it."""
START_S = 60.0
"""No program takes longer to be executed, even from a slow file server."""

CLOCK_SLACK_S = 86_400.0
"""A wall clock that is set while a job runs moves less than this. A time that is further off was never measured."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause before trying again: `base_s` after the first failure in a row, doubling up to `max_s`."""

    base_s: float = 1.0
    max_s: float = 300.0

    def after(self, failures: int) -> float:
        """Seconds to wait after the n-th failure in a row."""
        return min(self.max_s, self.base_s * 2.0 ** max(0, min(failures, 32) - 1))


def change(job: Job, changes: JobPatch, *, by: str, at: float) -> JobChanged:
    """The step of `job` to another phase; a step that `NEXT_PHASES` does not allow is a broken invariant."""
    assert changes["phase"] in NEXT_PHASES[job.phase], f"job {job.id}: {job.phase} -> {changes['phase']} is not legal"
    return JobChanged(job.id, changes, at=at, by=by)


def start(
    job: Job,
    placement: Placement,
    gpu_info: GpuInfo | None,
    waited: tuple[tuple[str, float], ...],
    *,
    by: str,
    at: float,
    enforcement: Enforcement | None = None,
) -> list[Fact]:
    """PENDING -> STARTING, and the devices are the job's."""
    allocation = Allocation(
        id=f"{job.id}.{job.launches + 1}",
        job_id=job.id,
        user=job.spec.user,
        placement=placement,
        created_at=at,
        attempt=job.attempts + 1,
        reserved=job.spec.kind is JobKind.RESERVE,
        gpu_info=gpu_info,
        enforcement=enforcement,
    )
    moved = change(
        job,
        JobPatch(
            phase=Phase.STARTING,
            launches=job.launches + 1,
            allocation_id=allocation.id,
            devices=placement.uuids,
            eligible_at=None,
            waited=waited,
            exit_code=None,
            signal=None,
            reason=None,
            started_at=None,
            ended_at=None,
        ),
        by=by,
        at=at,
    )
    return [moved, AllocationMade(allocation, at=at, by=by)]


def running(view: View, job: Job, started_at: float | None, *, by: str, at: float) -> list[Fact]:
    """STARTING -> RUNNING, by the supervisor's word; nothing when the job is past that."""
    started_at = _measured(view, job, started_at, at)
    if job.phase is Phase.STARTING:
        begun = replace(job, started_at=at if started_at is None else started_at)
        first = change(
            job,
            JobPatch(phase=Phase.RUNNING, started_at=begun.started_at, attempts=job.attempts + 1, launch_failures=0),
            by=by,
            at=at,
        )
        return [first, *_followers(view, begun, Phase.RUNNING, by=by, at=at)]
    if job.started_at is None and started_at is not None:
        return [JobChanged(job.id, {"started_at": started_at}, at=at, by=by)]
    return []


def _measured(view: View, job: Job, told: float | None, at: float) -> float | None:
    """A time of a launch's report; None if no clock can have shown it: its job may have written the record itself."""
    allocation = view.allocations.get(job.allocation_id or "")
    since = 0.0 if allocation is None else allocation.created_at
    return told if told is not None and since - CLOCK_SLACK_S <= told <= at + CLOCK_SLACK_S else None


def launch_failed(view: View, job: Job, message: str, *, by: str, at: float, backoff: Backoff) -> list[Fact]:
    """A launch of which nothing ran: back to PENDING with backoff, or FAILED once it failed too often."""
    if job.phase is Phase.STOPPING:
        return _stopped_before_it_ran(view, job, by=by, at=at)
    freed = _freed(view, job, by=by, at=at)
    failures = job.launch_failures + 1
    if failures >= MAX_LAUNCH_FAILURES:
        reason = f"it could not be launched {failures} times in a row; the last time: {message}"
        first = change(
            job, JobPatch(phase=Phase.FAILED, ended_at=at, reason=reason, launch_failures=failures), by=by, at=at
        )
        return [first, *freed, *_followers(view, job, Phase.FAILED, by=by, at=at)]
    again = JobPatch(reason=message, launch_failures=failures, eligible_at=at + backoff.after(failures))
    return [_back_to_queue(job, again, by=by, at=at), *freed]


def never_ran(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    """A launch that was cut off before anything ran (the server crashed, say): back to the queue at once."""
    if job.phase is Phase.STOPPING:
        return _stopped_before_it_ran(view, job, by=by, at=at)
    return [_back_to_queue(job, {}, by=by, at=at), *_freed(view, job, by=by, at=at)]


def _stopped_before_it_ran(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    ending = job.stop_reason or Phase.CANCELLED
    freed = _freed(view, job, by=by, at=at)
    if ending is Phase.PENDING:
        return [_back_to_queue(job, _made_room(job, 0.0, at), by=by, at=at), *freed]
    first = change(job, JobPatch(phase=ending, ended_at=at, reason=job.reason), by=by, at=at)
    return [first, *freed, *_followers(view, job, ending, by=by, at=at)]


def ended(view: View, job: Job, report: LaunchReport, *, by: str, at: float, backoff: Backoff) -> list[Fact]:
    """What a launch's end makes of its job: a terminal phase, or the queue again while attempts remain."""
    phase, reason = _ending(job, report)
    started_at, ended_at = (_measured(view, job, told, at) for told in (report.started_at, report.ended_at))
    ended_at = at if ended_at is None else ended_at
    attempts = job.attempts + (job.phase is Phase.STARTING or job.started_at is None)
    freed = _freed(view, job, by=by, at=at)
    if phase is Phase.PENDING:
        since = job.started_at if started_at is None else started_at
        ran_s = 0.0 if since is None else max(0.0, ended_at - since)
        room = _made_room(job, ran_s, ended_at)
        return [_back_to_queue(job, {**room, "attempts": attempts}, by=by, at=at), *freed]
    outcome = JobPatch(
        exit_code=report.exit_code, signal=report.signal, reason=reason, ended_at=ended_at, attempts=attempts
    )
    if started_at is not None:
        outcome["started_at"] = started_at
    first = change(job, {**outcome, "phase": phase}, by=by, at=at)
    if phase in (Phase.FAILED, Phase.LOST) and attempts <= job.spec.retries:
        again = replace(job, phase=phase)
        return [first, _back_to_queue(again, {"eligible_at": at + backoff.after(attempts)}, by=by, at=at), *freed]
    return [first, *freed, *_followers(view, job, phase, by=by, at=at)]


def _ending(job: Job, report: LaunchReport) -> tuple[Phase, str | None]:
    if report.phase in (LaunchPhase.DEAD, LaunchPhase.DECLARED_LOST):
        if job.phase is Phase.STOPPING and job.stop_reason in (Phase.CANCELLED, Phase.FAILED, Phase.TIMED_OUT):
            return job.stop_reason, job.reason
        return Phase.LOST, report.reason or "its supervisor died and left no record of how the job ended"
    ending = report.ending or Phase.FAILED
    if job.phase is Phase.STOPPING and ending is not Phase.TIMED_OUT:
        return job.stop_reason or Phase.CANCELLED, job.reason
    if ending is Phase.CANCELLED:
        return Phase.FAILED, report.reason or "something other than Corral told its supervisor to stop"
    if ending is Phase.TIMED_OUT and job.spec.time_limit_s is not None:
        return ending, report.reason or f"its time limit of {format_duration(job.spec.time_limit_s)}"
    return ending, report.reason


def _back_to_queue(job: Job, changes: JobPatch, *, by: str, at: float) -> JobChanged:
    waiting = JobPatch(phase=Phase.PENDING, allocation_id=None, stop_reason=None, reason=None)
    return change(job, {**waiting, **changes}, by=by, at=at)


def _made_room(job: Job, ran_s: float, ended_at: float) -> JobPatch:
    """What becomes of the record of an eviction once the launch that was stopped is over."""
    eviction = job.evicted
    if eviction is None:
        return {}
    lost_s = min(ran_s, max(0.0, ended_at - eviction.at)) if eviction.saves else ran_s
    return {
        "eviction": replace(eviction, ran_s=ran_s, lost_s=lost_s),
        "evictions": job.evictions + 1,
        "lost_s": job.lost_s + lost_s,
    }


def _freed(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    if job.allocation_id is None or job.allocation_id not in view.allocations:
        return []
    eviction, lost_from = job.evicted, None
    if eviction is not None and job.stop_reason is Phase.PENDING:
        lost_from = eviction.at if eviction.saves else view.allocations[job.allocation_id].created_at
    return [AllocationEnded(job.allocation_id, job.id, lost_from, at=at, by=by)]


def _followers(view: View, job: Job, phase: Phase, *, by: str, at: float) -> list[Fact]:
    """What a start or an end means for the jobs that wait for it: one parent fewer, or cancelled; and so on down the
    line.
    """
    if job.id not in view.dependants:
        return []
    facts: list[Fact] = []
    moved = {job.id: replace(job, phase=phase)}
    pending = [moved[job.id]]
    told: set[str] = set()
    while pending:
        parent = pending.pop(0)
        told.add(parent.id)
        for child_id in view.dependants.get(parent.id, ()):
            child = moved.get(child_id) or view.jobs[child_id]
            if child.phase is not Phase.PENDING or parent.id not in child.waits_for:
                continue
            settled = _settled(view, child, parent, moved, told)
            if settled.lost is not None:
                moved[child_id] = replace(child, phase=Phase.CANCELLED)
                facts.append(follow_no_more(child, settled.lost, by=by, at=at))
                pending.append(moved[child_id])
            elif changes := _to_wait_for(child, settled):
                moved[child_id] = patched(child, changes)
                facts.append(JobChanged(child_id, changes, at=at, by=by))
    return facts


def _settled(view: View, child: Job, parent: Job, moved: Mapping[str, Job], told: Collection[str]) -> Settled:
    """How the dependencies of `child` stand with `parent` as it is now.

    Others that change in the same step are in `moved`, those of them that the child was told of in `told`.
    """
    clauses = clauses_of(child.spec.after)
    if not wait_for_ends_alone(clauses):
        known = [moved.get(one) or view.jobs.get(one) for one in child.waits_for]
        return settled_by(child, [one for one in known if one is not None])
    if not parent.phase.terminal:
        return Settled(child.waits_for)
    if parent.phase is not Phase.SUCCEEDED:
        for (term,) in clauses:
            if term.condition in (Condition.OK, Condition.CORR) and covers(term, child, parent):
                return Settled(lost=(term, parent))
    jobs = view.jobs
    return Settled(
        tuple(
            one for one in child.waits_for if one in jobs and jobs[one].phase not in TERMINAL_PHASES and one not in told
        )
    )


def _to_wait_for(child: Job, settled: Settled) -> JobPatch:
    """What changes of a job that waits on; nothing where its list is long and little shorter."""
    left = settled.waits_for
    if wait_for_ends_alone(clauses_of(child.spec.after)) and len(child.waits_for) > LONG_WAIT:
        return {"waits_for": left} if 2 * len(left) <= len(child.waits_for) else {}
    conditions = conditions_to_keep(settled, child.spec.after) if left else ()
    changes = JobPatch()
    if left != child.waits_for:
        changes["waits_for"] = left
    if conditions != child.conditions:
        changes["conditions"] = conditions
    return changes


def follow_no_more(job: Job, lost: tuple[Dependency, Job], *, by: str, at: float) -> JobChanged:
    """PENDING -> CANCELLED, as what the job was to follow can no longer come."""
    return change(job, JobPatch(phase=Phase.CANCELLED, ended_at=at, reason=follows_no_more(lost)), by=by, at=at)


def follows_no_more(lost: tuple[Dependency, Job]) -> str:
    """Why a job cannot start that depends on what can no longer come."""
    term, parent = lost
    which = "whose failure it was to follow" if term.condition is Condition.NOT_OK else "which it was to follow"
    return f"job {parent.id}, {which}, {_how_it_ended(parent.phase)}"


def _how_it_ended(phase: Phase) -> str:
    return {
        Phase.SUCCEEDED: "succeeded",
        Phase.FAILED: "failed",
        Phase.CANCELLED: "was cancelled",
        Phase.TIMED_OUT: "ran into its time limit",
        Phase.LOST: "was lost",
    }[phase]


def cancel(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    """PENDING -> CANCELLED at once; a live job -> STOPPING. Raises Conflict when it has ended."""
    reason = f"cancelled by {by}"
    if job.phase is Phase.PENDING:
        first = change(job, JobPatch(phase=Phase.CANCELLED, ended_at=at, reason=reason), by=by, at=at)
        return [first, *_followers(view, job, Phase.CANCELLED, by=by, at=at)]
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        return [change(job, JobPatch(phase=Phase.STOPPING, stop_reason=Phase.CANCELLED, reason=reason), by=by, at=at)]
    if job.phase is Phase.STOPPING:
        return [JobChanged(job.id, {"stop_reason": Phase.CANCELLED, "reason": reason}, at=at, by=by)]
    raise Conflict(f"job {job.id} has already ended ({job.phase}); there is nothing left to cancel")


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
    """A live job -> STOPPING, to end in `ending`; nothing when it is no longer live.

    With a `rule` it is stopped by that for the sake of others, and of one job where that is given.
    """
    if job.phase not in (Phase.STARTING, Phase.RUNNING):
        return []
    changes = JobPatch(stop_reason=ending, reason=reason)
    if rule is not None:
        changes["eviction"] = Eviction(rule, for_job_id, reason, at, job.allocation_id or "")
    return [change(job, {**changes, "phase": Phase.STOPPING}, by=by, at=at)]


def overdue(job: Job, report: LaunchReport, grace_s: float, *, by: str, at: float) -> list[Fact]:
    """A job that has outlived its time limit -> STOPPING, to end TIMED_OUT; nothing while it need not have ended.

    Its supervisor keeps the limit, unless its job has stopped it, or it is stuck.
    """
    limit_s = job.spec.time_limit_s
    if limit_s is None or report.age_s is None:
        return []
    if job.started_at is None:
        # What was to say that the program runs may have been stopped by it; or it has not come so far yet.
        late_s = report.age_s - START_S - limit_s
    else:
        # A wall clock may have been set meanwhile, and a supervisor may have waited long before the program ran.
        late_s = min(report.age_s, at - job.started_at) - limit_s
    if late_s <= grace_s + OVERDUE_S:
        return []
    reason = (
        f"its time limit of {format_duration(limit_s)}; the process that keeps it did not, being stopped or stuck, "
        f"and the server ended the job {format_duration(late_s)} late"
    )
    return stop(job, Phase.TIMED_OUT, reason, by=by, at=at)


def evict(job: Job, eviction: Evict, *, by: str, at: float) -> list[Fact]:
    """A live job -> STOPPING, on its way back to the queue; nothing when it is no longer live."""
    if job.phase not in (Phase.STARTING, Phase.RUNNING):
        return []
    told = Eviction(
        eviction.rule,
        None if eviction.for_job_id == job.id else eviction.for_job_id,
        eviction.reason,
        at,
        job.allocation_id or "",
        lender=eviction.lender,
        saves=job.spec.checkpoint_signal is not None and job.phase is Phase.RUNNING,
    )
    return [
        change(
            job,
            JobPatch(phase=Phase.STOPPING, stop_reason=Phase.PENDING, reason=eviction.reason, eviction=told),
            by=by,
            at=at,
        )
    ]


def requeue(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    """A live job is stopped and waits again; one that failed or was lost waits again. Raises Conflict otherwise."""
    if job.spec.kind is not JobKind.RUN:
        raise Conflict(f"job {job.id} is {_article(job.spec.kind)}; only work that Corral runs can be run again")
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        return stop(job, Phase.PENDING, f"requeued by {by}", by=by, at=at)
    if job.phase in (Phase.FAILED, Phase.LOST):
        again = replace(job, phase=Phase.PENDING, allocation_id=None, reason=None, eligible_at=None, launch_failures=0)
        return [JobRequeued(again, at=at, by=by)]
    raise Conflict(f"job {job.id} is {job.phase}; only a job that runs, failed or was lost can be requeued")


def _article(kind: JobKind) -> str:
    return {JobKind.RESERVE: "a reservation", JobKind.ADOPT: "an adopted process", JobKind.RUN: "a job"}[kind]


def hold(job: Job, held: bool, *, by: str, at: float) -> list[Fact]:
    """Set or lift the hold of a waiting job; nothing when it already is so. Raises Conflict when it no longer waits."""
    if job.phase is not Phase.PENDING:
        verb = "held" if held else "released"
        raise Conflict(f"job {job.id} is {job.phase}; only a job that waits can be {verb}")
    return [] if job.held is held else [JobChanged(job.id, {"held": held}, at=at, by=by)]


def release(view: View, job: Job, *, by: str, at: float) -> list[Fact]:
    """Lift the hold of a waiting job; RUNNING -> SUCCEEDED at once of a reservation. Raises Conflict otherwise.

    Nothing of Corral's runs in a reservation, so that its devices are free without anything having to end first.
    """
    if job.spec.kind is JobKind.RESERVE and job.phase is Phase.RUNNING:
        first = change(job, JobPatch(phase=Phase.SUCCEEDED, ended_at=at, reason=f"released by {by}"), by=by, at=at)
        return [first, *_freed(view, job, by=by, at=at), *_followers(view, job, Phase.SUCCEEDED, by=by, at=at)]
    return hold(job, False, by=by, at=at)


def live(view: View) -> tuple[Job, ...]:
    """Jobs that hold devices, in order of submission."""
    return tuple(sorted((j for j in view.jobs.values() if j.allocation_id in view.allocations), key=_sequence))


def _sequence(job: Job) -> int:
    return job.sequence
