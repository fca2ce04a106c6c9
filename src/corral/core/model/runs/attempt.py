"""One attempt to run a job, as the journal tells of it: what it had, when it began and ended, and why it ended."""

from dataclasses import dataclass

from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation
from corral.core.model.runs.attempt_end import AttemptEnd


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
