"""The phases of a job. They are apart from the job, which takes too long to import for a command that lists jobs."""

from enum import StrEnum


class Phase(StrEnum):
    """The phase of a job. `NEXT_PHASES` has the legal steps between phases; a hold is a flag, not a phase."""

    PENDING = "PENDING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"
    LOST = "LOST"

    @property
    def terminal(self) -> bool:
        """Whether a job in this phase has ended and holds nothing (a retry turns FAILED and LOST to PENDING)."""
        return self in TERMINAL_PHASES


TERMINAL_PHASES = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED, Phase.TIMED_OUT, Phase.LOST})

NEXT_PHASES: dict[Phase, frozenset[Phase]] = {
    Phase.PENDING: frozenset({Phase.STARTING, Phase.CANCELLED}),
    Phase.STARTING: frozenset(
        {Phase.RUNNING, Phase.PENDING, Phase.STOPPING, Phase.SUCCEEDED, Phase.FAILED, Phase.TIMED_OUT, Phase.LOST}
    ),
    Phase.RUNNING: frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPING, Phase.TIMED_OUT, Phase.LOST}),
    Phase.STOPPING: frozenset({Phase.PENDING, Phase.FAILED, Phase.CANCELLED, Phase.TIMED_OUT, Phase.LOST}),
    Phase.SUCCEEDED: frozenset(),
    Phase.FAILED: frozenset({Phase.PENDING}),
    Phase.CANCELLED: frozenset(),
    Phase.TIMED_OUT: frozenset(),
    Phase.LOST: frozenset({Phase.PENDING}),
}
"""The legal steps. STARTING -> SUCCEEDED | FAILED: the process ended before anyone saw it run.
RUNNING -> TIMED_OUT: the supervisor enforced the time limit by itself. STOPPING -> FAILED: the job was stopped because
of what it did.
"""
