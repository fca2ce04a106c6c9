"""The JSON bodies and query strings of requests by the names of another autotuner."""

from dataclasses import dataclass
from typing import Annotated

from corral.api.requests.shapes import MAX_PAGE
from corral.core.model.field import Field
from corral.features.tuner.bodies import MAX_MEASURED_PAGE
from corral.features.tuner.model.tuning_task import TaskStatus


@dataclass(frozen=True, slots=True)
class AutotunerTasksQuery:
    """The tasks to list, in another autotuner's words: those of one status, without the first `skip`."""

    skip: Annotated[int, Field(least=0)] = 0
    limit: Annotated[int, Field(least=1, most=MAX_PAGE)] = 100
    status_filter: TaskStatus | None = None


@dataclass(frozen=True, slots=True)
class AutotunerPageQuery:
    """The experiments to list by the names of another autotuner: leaving out the first `skip`, at most `limit`."""

    skip: Annotated[int, Field(least=0)] = 0
    limit: Annotated[int, Field(least=1, most=MAX_MEASURED_PAGE)] = 1000


@dataclass(frozen=True, slots=True)
class AutotunerTaskUpdate:
    """Further fields of a task to change. Its status is changed by start, cancel, restart and clear."""

    description: str
