"""The JSON bodies of requests about tasks and experiments of the autotuner, read like those in `shapes`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from corral.core.model.field import Field
from corral.features.tuner.model.tuning_task import TaskStatus
from corral.features.tuner.task_bounds import MOST_EXPERIMENTS

MAX_MEASURED_PAGE = 1_000
"""The most experiments in one listing that includes all measurements."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The most experiments of a task."""

    experiments: Annotated[int, Field(least=0, most=MOST_EXPERIMENTS)]


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The end of a task that ended by itself: completed or failed, and why it failed."""

    status: TaskStatus
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class NewExperiment:
    """The next experiment of a task: its number, its parameters by name, and data of the search about it.

    `repeats` is the number of the experiment that it measures again, None for a new combination.
    """

    task_id: str
    experiment_id: int
    parameters: Mapping[str, Any]
    search_state: Mapping[str, Any] = field(default_factory=dict)
    repeats: Annotated[int | None, Field(least=1, most=MOST_EXPERIMENTS)] = None


@dataclass(frozen=True, slots=True)
class ExperimentsQuery:
    """The experiments of a task to list: those with numbers above `after`, at most `limit`, with their metrics."""

    task: str
    after: Annotated[int, Field(least=0)] = 0
    limit: Annotated[int, Field(least=1, most=MOST_EXPERIMENTS)] = 1000
    metrics: bool = False


@dataclass(frozen=True, slots=True)
class SummariesQuery:
    """The experiments of a task to list in short: those with numbers above `after`, at most `limit`."""

    after: Annotated[int, Field(least=0)] = 0
    limit: Annotated[int, Field(least=1, most=MOST_EXPERIMENTS)] = 500


@dataclass(frozen=True, slots=True)
class ServingQuery:
    """The number of the experiment to serve like; without it the best one."""

    experiment: Annotated[int | None, Field(least=1, most=MOST_EXPERIMENTS)] = None


@dataclass(frozen=True, slots=True)
class TaskLogQuery:
    """Whether to go on with a log while it grows."""

    follow: bool = False
