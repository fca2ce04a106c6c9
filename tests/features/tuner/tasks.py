"""A task that takes a second or two, and what becomes of those that were begun."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corral.client import Client
from corral.features.tuner.answers import ExperimentRow, TaskRow
from tests.e2e.box import Box

TASK: dict[str, Any] = {
    "task_name": "stand-in",
    "model": {"id_or_path": "toy"},
    "base_runtime": "stand-in",
    "parameters": {"max-num-seqs": [1, 4]},
    "optimization": {"objective": "maximize_throughput", "timeout_per_iteration": 100},
    "benchmark": {
        "num_concurrency": [4],
        "traffic_scenarios": ["D(20,5)"],
        "max_time_per_iteration": 0.5,
        "max_requests_per_iteration": 30,
    },
}
SLOW = {**TASK["benchmark"], "max_requests_per_iteration": 1_000_000, "max_time_per_iteration": 60}


def begun(client: Client, **fields: Any) -> str:
    row = client.tasks.create({**TASK, **fields})
    client.tasks.start(row.id)
    return row.id


def over(box: Box, client: Client, task_id: str) -> TaskRow:
    def ended() -> TaskRow | None:
        row = client.tasks.get(task_id).task
        return row if row.status != "running" else None

    row: TaskRow = box.until(ended)
    return row


def until(box: Box, client: Client, task_id: str, holds: Callable[[ExperimentRow], bool]) -> ExperimentRow:
    row: ExperimentRow = box.until(
        lambda: next((row for row in client.experiments.list(task_id, metrics=True) if holds(row)), None)
    )
    return row


def tuner_of(box: Box, task_id: str) -> int:
    """The process that runs a task on this box."""
    wanted = [b"corral.features.tuner.running", os.fsencode(box.home), task_id.encode()]
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "cmdline").read_bytes().split(b"\0")[-6:-3] == wanted:
                return int(process.name)
        except OSError:
            continue
    raise AssertionError("there is no tuner")
