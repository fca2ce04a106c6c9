"""A recorded attempt to run a job: its allocation, its start and end, and why it ended."""

from dataclasses import dataclass
from enum import StrEnum

from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation


class AttemptEnd(StrEnum):
    """How an attempt ended.

    PREEMPTED: it was stopped for other jobs. FAULT: one of its devices fell sick. REQUEUED: a user had the job run
    again. NOT_LAUNCHED: nothing of it ran. The others are the phases of the same name.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    PREEMPTED = "preempted"
    FAULT = "fault"
    REQUEUED = "requeued"
    NOT_LAUNCHED = "not_launched"


@dataclass(frozen=True, slots=True)
class MemberEnd:
    """The end of one member of a gang. `phase` None means that nothing of it ran."""

    phase: Phase | None = None
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """One attempt to run a job. Times are Unix seconds.

    Attributes:
        allocation: the job's allocation for it.
        started_at: None if nothing ran, or if that is not known yet.
        ended_at, ended_as: None while it runs.
        reason: how and why it ended, for a person; None while it runs.
        members: how each member ended, by rank; () for a job without a gang, or if it was not recorded.
    """

    allocation: Allocation
    started_at: float | None = None
    ended_at: float | None = None
    ended_as: AttemptEnd | None = None
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    members: tuple[MemberEnd, ...] = ()
