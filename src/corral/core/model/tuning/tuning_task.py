"""A task of the autotuner as the ledger keeps it."""

from dataclasses import dataclass
from enum import StrEnum

from corral.core.model.tuning.tuning_spec import TuningSpec


class TaskStatus(StrEnum):
    """Where a task is in its life."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether nothing of it begins unless somebody has it go on."""
        return self in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class TuningTask:
    """A search for the best way to serve a model.

    Attributes:
        id: of the same numbers as jobs, so that no number means two things.
        planned_experiments: how many the search makes at most, None before it is known.
        error_message: why it failed, None unless it did.
        notes: what its user should know before it begins.
    """

    id: str
    user: str
    spec: TuningSpec
    created_at: float
    status: TaskStatus = TaskStatus.PENDING
    started_at: float | None = None
    completed_at: float | None = None
    planned_experiments: int | None = None
    error_message: str | None = None
    notes: tuple[str, ...] = ()
