"""Where a job stands. Apart from the job, which takes longer to load than a command that lists jobs may."""

from enum import StrEnum


class Phase(StrEnum):
    """Where a job stands. The legal steps between phases are in `NEXT_PHASES`; a hold is a flag, not a phase."""

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
"""Legal steps. STARTING -> SUCCEEDED | FAILED is a process that ended before anyone saw it run;
RUNNING -> TIMED_OUT a time limit that the supervisor enforced by itself; STOPPING -> FAILED a job that was stopped for
what it did."""
