"""Pure translation of events about tasks and experiments into messages that the clients of another autotuner know."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from corral.api.events.event_batches import EventBatch
from corral.api.events.event_stream import OF_THE_STREAM
from corral.core.model.utc_time import utc_time

_STREAM_TYPES = {"hello": "connection_established", "ping": "ping", "reset": "error", "overflow": "error"}
_OF_TASK = {"started": "task_started", "cancelled": "task_failed", "deleted": "task_failed"}
_OF_EXPERIMENT = {
    "pending": "experiment_progress",
    "deploying": "experiment_progress",
    "success": "experiment_completed",
    "failed": "experiment_failed",
}

Told = Mapping[str, Any]


class AutotunerMessages:
    """The messages for the followers of one task, or of one of its experiments.

    `known` is sent first: the followed task or experiment as a row.
    """

    def __init__(self, task_id: str, known: Mapping[str, Any], experiment: tuple[str, int] | None = None) -> None:
        self._task_id = task_id
        self._known = known
        self._experiment = experiment

    def of_batch(self, batch: EventBatch) -> Iterator[str]:
        """The messages for a batch of events, each as JSON."""
        for event in batch.events_of((*OF_THE_STREAM, "tasks")):
            for message in self._of_event(json.loads(event.data)):
                yield json.dumps(message, separators=(",", ":"))

    def _of_event(self, event: Told) -> Iterator[Told]:
        if event["topic"] in _STREAM_TYPES:
            yield self._of_stream(event)
            return
        for row in event["rows"]:
            if "task_id" in row and self._follows(row):
                yield self._message(_experiment_type(row), event, _said_of_experiment(row), row, row["experiment_id"])
            elif self._experiment is None and row["id"] == self._task_id:
                yield self._message(_task_type(event, row), event, _said_of_task(event, row), row)

    def _of_stream(self, event: Told) -> Told:
        number = None if self._experiment is None else self._experiment[1]
        if event["topic"] == "hello":
            what = f"task {self._task_id}" if number is None else f"experiment {number} of task {self._task_id}"
            return self._message(_STREAM_TYPES["hello"], event, f"following {what}", self._known, number)
        return self._message(_STREAM_TYPES[event["topic"]], event, event["message"] or "", {}, number)

    def _follows(self, row: Told) -> bool:
        return (row["task_id"], row["id"]) == (self._task_id, self._experiment[0] if self._experiment else row["id"])

    def _message(self, kind: str, event: Told, said: str, data: Told, number: int | None = None) -> Told:
        return {
            "type": kind,
            "task_id": int(self._task_id),
            "timestamp": utc_time(event["at"]),
            "experiment_id": number,
            "message": said,
            "data": data,
        }


def _task_type(event: Told, row: Told) -> str:
    if event["what"] == "ended":
        return "task_completed" if row["status"] == "completed" else "task_failed"
    return _OF_TASK.get(event["what"], "task_progress")


def _said_of_task(event: Told, row: Told) -> str:
    why = f": {row['error_message']}" if row.get("error_message") else ""
    return f"task {row['id']}: {event['what'].replace('_', ' ')}{why}"


def _experiment_type(row: Told) -> str:
    if row["status"] == "benchmarking":
        return "benchmark_progress" if row["figures"] else "benchmark_started"
    if row["status"] == "pending" and row["job_id"] is None:
        return "experiment_started"
    return _OF_EXPERIMENT[row["status"]]


def _said_of_experiment(row: Told) -> str:
    why = f": {row['error_message']}" if row["error_message"] else ""
    return f"experiment {row['experiment_id']} is {row['status']}{why}"
