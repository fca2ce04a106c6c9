"""One attempt to run a job, as the journal tells of it: what it had, when it began and ended, and why it ended."""

from dataclasses import dataclass
from enum import StrEnum

from corral.model.allocation import Allocation
from corral.model.job import Phase


class AttemptEnd(StrEnum):
    """How an attempt ended.

    PREEMPTED: it was stopped for others, REQUEUED: by a user, who had it run again. NOT_LAUNCHED: nothing of it ran.
    The others are the phases of the same name.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    NOT_LAUNCHED = "not_launched"


@dataclass(frozen=True, slots=True)
class MemberEnd:
    """How one member of a gang ended; `phase` None is one of which nothing ran."""

    phase: Phase | None = None
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """One attempt to run a job. Times are Unix seconds.

    Attributes:
        allocation: what the job had for it.
        started_at: None where nothing ran, or that is not known yet.
        ended_at, ended_as: None while it is live.
        reason: how and why it ended, for a person; None while it is live.
        members: how each member ended, by rank; () of a job that is no gang, and where it was not recorded.
    """

    allocation: Allocation
    started_at: float | None = None
    ended_at: float | None = None
    ended_as: AttemptEnd | None = None
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    members: tuple[MemberEnd, ...] = ()
