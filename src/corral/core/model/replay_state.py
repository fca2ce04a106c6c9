"""How far a replay of the past is."""

from enum import StrEnum


class ReplayState(StrEnum):
    """The last three are for good."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self in (ReplayState.DONE, ReplayState.FAILED, ReplayState.CANCELLED)
