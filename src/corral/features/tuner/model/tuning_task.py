"""A task of the autotuner as the ledger stores it."""

from dataclasses import dataclass
from enum import StrEnum

from corral.features.tuner.model.tuning_spec import TuningSpec


class TaskStatus(StrEnum):
    """The state of a task."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether nothing more starts unless somebody resumes the task."""
        return self in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class TuningTask:
    """A search for the best way to serve a model.

    Attributes:
        id: from the same numbers as the ids of jobs, so that each number is unique.
        planned_experiments: the most experiments of the search, None before it is known.
        error_message: why it failed, None if it did not.
        notes: remarks for its user before it begins.
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
