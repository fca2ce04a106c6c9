"""One decision: who starts where, and why everybody else waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from corral.model.allocation import Placement
from corral.model.fit import Cause, Misfit
from corral.model.job import Job, JobKind
from corral.model.plan import Hold, Plan, Start, WaitReason
from corral.scheduling.admit import Limits, limited
from corral.scheduling.draft import Choose, Draft, Keeping
from corral.scheduling.waiting import Waiting

LOOK_LIMIT = 500
"""A cycle looks at so many groups of alike jobs that cannot start, so that its time has a bound."""

START_LIMIT = 256
"""A cycle starts so many jobs; the next one goes on."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one decision stands on. `running` counts the jobs that Corral started, `of_array` those of each array."""

    version: int
    jobs: Mapping[str, Job]
    waiting: Waiting
    draft: Draft
    choose: Choose
    method: str
    limits: Limits
    running: int
    of_array: Mapping[str, int]


@dataclass(slots=True)
class _Decided:
    running: int
    of_array: dict[str, int]
    starts: list[Start] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)


def plan_cycle(cycle: Cycle) -> Plan:
    """The decision. Jobs are taken in order; one that has no place keeps all it could use from those behind it."""
    turns, done = cycle.waiting.turns(), _Decided(cycle.running, dict(cycle.of_array))
    while (job_id := turns.head()) is not None:
        if len(done.starts) >= START_LIMIT or len(done.holds) >= LOOK_LIMIT:
            break
        job = cycle.jobs[job_id]
        hold = _barred(cycle, done, job) or _placed(cycle, done, job)
        if hold is None:
            turns.go_on()
        else:
            done.holds.append(hold)
            turns.close_group()
    return Plan(cycle.version, tuple(done.starts), holds=tuple(done.holds), complete=turns.head() is None)


def _position(cycle: Cycle, done: _Decided, job: Job) -> int:
    return cycle.waiting.position(job) - len(done.starts)


def _barred(cycle: Cycle, done: _Decided, job: Job) -> Hold | None:
    barrier = limited(job, done.running, done.of_array, cycle.limits)
    if barrier is None:
        return None
    return Hold(job.id, barrier.reason, _position(cycle, done, job), detail=barrier.detail)


def _placed(cycle: Cycle, done: _Decided, job: Job) -> Hold | None:
    request = job.spec.request
    placement = cycle.choose(cycle.draft, request)
    if isinstance(placement, Placement):
        cycle.draft.take(placement.members, job.spec.name)
        done.starts.append(Start(job.id, placement, cycle.method))
        if job.spec.kind is JobKind.RUN:
            done.running += 1
        if job.array_id is not None:
            done.of_array[job.array_id] = done.of_array.get(job.array_id, 0) + 1
        return None
    hold = _blocked(cycle, done, job, placement)
    misfit = hold.misfit or placement
    cycle.draft.keep(Keeping(job.id, request, misfit.cause in (Cause.CPU, Cause.HOST_MEMORY)))
    return hold


def _blocked(cycle: Cycle, done: _Decided, job: Job, misfit: Misfit) -> Hold:
    """Priority, where only what is kept for jobs ahead is missing; else resources."""
    position = _position(cycle, done, job)
    free = cycle.choose(cycle.draft.unkept(), job.spec.request)
    if isinstance(free, Misfit):
        return Hold(job.id, WaitReason.RESOURCES, position, misfit=free)
    behind = cycle.draft.keeper(free)
    return Hold(job.id, WaitReason.PRIORITY, position, behind=behind, misfit=misfit)
