"""What one decision says: who starts where, who must make room, who waits for what, and what is kept for whom."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from corral.core.model.jobs.job import Job, JobKind, JobSpec, Request
from corral.core.model.placing.allocation import Placement, Promise
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.fit import Misfit


class WaitReason(StrEnum):
    """Why a job waits. The values are what `ps` shows, after Slurm's.

    The last two are of listings alone: it made room for another, and waits to go on.
    """

    RESOURCES = "Resources"
    PRIORITY = "Priority"
    DEPENDENCY = "Dependency"
    HELD = "Held"
    BEGIN_TIME = "BeginTime"
    BACKOFF = "Backoff"
    ARRAY_LIMIT = "ArrayLimit"
    LIMIT = "Limit"
    RESERVATION = "Reservation"
    NOT_REACHED = "NotReached"
    PREEMPTED = "Preempted"
    RECLAIMED = "Reclaimed"
    DISK = "Disk"


PARKED = frozenset({WaitReason.HELD, WaitReason.DEPENDENCY, WaitReason.BEGIN_TIME, WaitReason.BACKOFF})
"""Waits that are no wait in the queue."""


class Group(NamedTuple):
    """What makes waiting jobs alike: if the first of them has no place, none of them has.

    Name and time limit are in it because they say how long a job may run, and so what it may run beside;
    `array_id` only where the array has a limit of its own.
    """

    queue: str
    user: str
    project: str
    kind: JobKind
    name: str
    request: Request
    time_limit_s: float | None
    array_id: str | None


def group_of(job: Job) -> Group:
    """The group that a waiting job belongs to."""
    spec = job.spec
    array_id = None if job.array_limit is None else job.array_id
    return Group(spec.queue, spec.user, spec.project, spec.kind, spec.name, spec.request, spec.time_limit_s, array_id)


@dataclass(frozen=True, slots=True)
class Start:
    """Start the job on these devices. `method` names the policy that chose them.

    `loan_milli` is how far above its own quota the job's queue stands with it, in milli-GPU: so much is borrowed.
    `spec` is what was decided on: a job that is another by now is decided on again. None is whatever it is.
    """

    job_id: str
    placement: Placement
    method: str
    loan_milli: int = 0
    spec: JobSpec | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """End the job to make room for another; it goes back to its queue.

    `lender` is the queue or pool that takes back, where one does.
    """

    job_id: str
    for_job_id: str
    reason: str
    rule: EvictionRule = EvictionRule.PRIORITY
    lender: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """The job waits, and those of its group behind it do for the same reason.

    Attributes:
        position: place in its order, from 1.
        behind: the job that goes first, where that is the reason.
        until: when it may be looked at again (backoff), Unix seconds.
        misfit: the best node's reason, where resources are.
        detail: the limit or the dependency, for a person.
        keeps_turn: no job that waits now can be put before it later.
        expected_start: Unix seconds, None when it is not known; `depends_on` then names the job without an end.
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
    """A decision over the view of `version`. Every tuple is in the order of the decision.

    `future_starts` are of waiting jobs for which devices are kept free. `promises` are those of them that later plans
    are to keep; they do once the view has them.
    `waits` has one entry for each group of alike jobs that was looked at: the first of them that could not start.
    `faults` are policies that failed and what is done instead, for a person.
    `complete` is False when the cycle reached its bound: more may start once these starts are committed.
    """

    version: int
    starts: tuple[Start, ...] = ()
    evictions: tuple[Evict, ...] = ()
    waits: tuple[Wait, ...] = ()
    future_starts: tuple[Promise, ...] = ()
    promises: tuple[Promise, ...] = ()
    faults: tuple[str, ...] = ()
    complete: bool = True
