"""Plans: the result of one scheduling decision, with starts, evictions, waits and reserved devices."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from corral.core.model.jobs.job import Job, JobKind, JobSpec, Request
from corral.core.model.placing.allocation import Placement, Promise
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.fit import Misfit
from corral.core.model.runs.packing import program_of
from corral.core.model.runs.prediction import JobGroup


class WaitReason(StrEnum):
    """Why a job waits. `ps` shows the values, which are named after Slurm's.

    PREEMPTED, RECLAIMED and GPU_FAULT appear in listings alone: the job made room for another, or left a device that
    fell sick, and waits to continue.
    """

    RESOURCES = "Resources"
    PRIORITY = "Priority"
    DEPENDENCY = "Dependency"
    HELD = "Held"
    BEGIN_TIME = "BeginTime"
    BACKOFF = "Backoff"
    ARRAY_LIMIT = "ArrayLimit"
    LIMIT = "Limit"
    POWER_BUDGET = "PowerBudget"
    RESERVATION = "Reservation"
    NOT_REACHED = "NotReached"
    PREEMPTED = "Preempted"
    RECLAIMED = "Reclaimed"
    GPU_FAULT = "GpuFault"
    DISK = "Disk"


PARKED = frozenset({WaitReason.HELD, WaitReason.DEPENDENCY, WaitReason.BEGIN_TIME, WaitReason.BACKOFF})
"""Reasons that do not count as waiting in the queue."""


class Group(NamedTuple):
    """The key of equal waiting jobs: if the first of them has no place, none of them has.

    Name and time limit are in it because the expected run time depends on them, and so does backfill. `array_id` is set
    only if the array has a limit of its own. `program` is that of a packable job, which decides with whom it may be.
    """

    queue: str
    user: str
    project: str
    kind: JobKind
    name: str
    request: Request
    time_limit_s: float | None
    array_id: str | None
    program: JobGroup | None = None


def group_of(job: Job) -> Group:
    """The group that a waiting job belongs to."""
    spec = job.spec
    array_id = None if job.array_limit is None else job.array_id
    alike = spec.queue, spec.user, spec.project, spec.kind, spec.name, spec.request, spec.time_limit_s
    return Group(*alike, array_id, program_of(spec) if spec.packable else None)


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a job on these devices. `method` names the policy that chose them.

    `loan_milli` is by how many milli-GPU the job's queue exceeds its own quota with this job: this much is borrowed.
    `spec` is the spec that the decision used. If the job has another spec by now, it is decided on again. None accepts
    any spec.
    """

    job_id: str
    placement: Placement
    method: str
    loan_milli: int = 0
    spec: JobSpec | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """The stop of a job to make room for another; the job goes back to its queue.

    `lender` is the queue or pool that takes back capacity, if there is one.
    """

    job_id: str
    for_job_id: str
    reason: str
    rule: EvictionRule = EvictionRule.PRIORITY
    lender: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A job that waits, together with the jobs of its group behind it.

    Attributes:
        position: its place in the order, from 1.
        behind: the job that goes first, if that is the reason.
        until: when the job may be considered again (backoff), Unix seconds.
        misfit: the reason on the best node, if resources are missing.
        detail: the limit or the dependency, for a person.
        keeps_turn: no job that waits now can be put before it later.
        expected_start: Unix seconds, None if not known; `depends_on` then names the job whose end is not known.
    """

    job_id: str
    reason: WaitReason
    position: int
    behind: str | None = None
    until: float | None = None
    misfit: Misfit | None = None
    detail: str | None = None
    expected_start: float | None = None
    depends_on: str | None = None
    keeps_turn: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision on the view of `version`. Every tuple is in the order of the decision.

    `future_starts` are of waiting jobs with reserved devices. `promises` are those of them that later plans must keep,
    once the view has them.
    `waits` has one entry for each group of equal jobs that was considered: the first job that could not start.
    `faults` are policies that failed and the fallbacks used instead, for a person.
    `complete` is False if the cycle reached its bound: more jobs may start once these starts are committed.
    """

    version: int
    starts: tuple[Start, ...] = ()
    evictions: tuple[Evict, ...] = ()
    waits: tuple[Wait, ...] = ()
    future_starts: tuple[Promise, ...] = ()
    promises: tuple[Promise, ...] = ()
    faults: tuple[str, ...] = ()
    complete: bool = True
