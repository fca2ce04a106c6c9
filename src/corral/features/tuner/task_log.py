"""The log of a task: one line per event, made from its record and those of its experiments. Pure.

The same records give the same lines, whether they come from a listing or one by one as events. So a client can read the
log and then follow it, and loses or repeats no line.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from corral.core.model.printable import printable
from corral.core.model.utc_time import utc_time
from corral.features.tuner.model.experiment import MEASURED_IN_PART, ExperimentStatus
from corral.features.tuner.model.tuning_error import for_everybody
from corral.features.tuner.model.tuning_task import TaskStatus

MOST_CHARACTERS = 1_000
"""The most characters of a text that the task's user wrote; a longer text is cut."""


Row = Mapping[str, Any]
"""A task or an experiment as in a listing or an event."""


class TaskLogLine(NamedTuple):
    """A line of the log; equal events have an equal `key`."""

    at: float
    text: str
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"{utc_time(self.at)} {self.text}"


class TaskLog:
    """The log of one task. It returns each line once, whether the line comes from a listing or an event."""

    def __init__(self, task_id: str) -> None:
        self._id = task_id
        self._told: set[tuple[str, ...]] = set()
        self._running: set[str] = set()
        self._over = False

    @property
    def ended(self) -> bool:
        """Whether no more lines follow unless a user starts the task again."""
        return self._over and not self._running

    def of_records(self, task: Row, experiments: Iterable[Row]) -> list[str]:
        """Return the lines from all records that were not returned before, by time."""
        self._running.clear()
        lines = [*self._of_task(task)]
        for row in experiments:
            lines += self._of_experiment(row)
        return [str(line) for line in sorted(lines, key=lambda line: line.at)]

    def of_event(self, event: Row) -> list[str]:
        """Return the new lines from an event of the topic `tasks`."""
        lines: list[TaskLogLine] = []
        for row in event["rows"]:
            if row.get("task_id") == self._id:
                lines += self._of_experiment(row)
            elif row["id"] == self._id and event["what"] == "deleted":
                self._over = True
                self._running.clear()
            elif row["id"] == self._id and "status" in row:
                lines += self._of_task(row)
        return [str(line) for line in lines]

    def _of_task(self, row: Row) -> Iterator[TaskLogLine]:
        self._over = task_over(row)
        return self._new(task_lines(row))

    def _of_experiment(self, row: Row) -> Iterator[TaskLogLine]:
        if row["completed_at"] is None:
            self._running.add(row["id"])
        else:
            self._running.discard(row["id"])
        return self._new(experiment_lines(row))

    def _new(self, lines: Iterable[TaskLogLine]) -> Iterator[TaskLogLine]:
        for line in lines:
            if line.key not in self._told:
                self._told.add(line.key)
                yield line


def task_over(row: Row) -> bool:
    """Return whether a task, as a row of a listing or an event, begins no more experiments."""
    return TaskStatus(row["status"]).over


def task_lines(row: Row) -> Iterator[TaskLogLine]:
    """Yield the lines of a task, without those of its experiments."""
    name = f"task {row['id']}"
    yield _line(row["created_at"], f"{name} ({row['task_name']}) of {row['user']}", "written down")
    if row["started_at"] is not None:
        yield _line(row["started_at"], f"{name} began", "began", str(row["started_at"]))
    if row["completed_at"] is not None and task_over(row):
        yield _line(row["completed_at"], f"{name} is {row['status']}{_why(row)}", "over", str(row["completed_at"]))


def experiment_lines(row: Row) -> Iterator[TaskLogLine]:
    """Yield the lines of an experiment."""
    name, key = f"experiment {row['experiment_id']}", str(row["id"])
    yield _line(row["created_at"], f"{name}: {_in_words(row['parameters'])}", key)
    # An experiment that failed before it had GPUs has its end as its start.
    if row["job_id"] is not None and row["started_at"] not in (None, row["completed_at"]):
        yield _line(row["started_at"], f"{name} has its GPUs and is deployed as job {row['job_id']}", key, "deployed")
    if row["completed_at"] is not None:
        yield _line(row["completed_at"], f"{name}: {_outcome(row)}", key, "over")


def _outcome(row: Row) -> str:
    if row["status"] == ExperimentStatus.FAILED:
        return f"failed{_why(row)}"
    score = row["objective_score"]
    return MEASURED_IN_PART if score is None else f"success, score {score:.6g}"


def _why(row: Row) -> str:
    # All users may read the log of a task, but not the logs of its servers.
    return f": {for_everybody(row['error_message'])}" if row["error_message"] else ""


def _in_words(parameters: Mapping[str, Any]) -> str:
    said = ", ".join(f"{name} {value}" for name, value in parameters.items())
    return said if len(said) <= MOST_CHARACTERS else f"{said[:MOST_CHARACTERS]}..."


def _line(at: float, text: str, *key: str) -> TaskLogLine:
    return TaskLogLine(at, printable(text), key)
