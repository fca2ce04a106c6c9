"""The state of a replay of recorded jobs."""

from enum import StrEnum


class ReplayState(StrEnum):
    """The state of a replay. The last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether the replay has ended."""
        return self in (ReplayState.DONE, ReplayState.FAILED, ReplayState.CANCELLED)
