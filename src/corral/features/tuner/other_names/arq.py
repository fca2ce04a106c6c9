"""An ARQ worker for sites whose programs enqueue tasks in Redis: `arq corral.tuner.arq.WorkerSettings`.

Corral's server runs the tasks. A job of ARQ only starts a task and waits for its end. So a killed worker, or a job that
is delivered twice, does not affect the task. REDIS_URL is the address of Redis, as ARQ reads it.
"""

import asyncio
import logging
import os
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from corral.client import Client
from corral.core.model.errors import BackendFailed, Conflict, Refused
from corral.features.tuner.answers import TaskDetail, TaskRow
from corral.features.tuner.model.tuning_task import TaskStatus
from corral.features.tuner.other_names.answers import GPU_WAIT_TIMEOUT_S
from corral.wire import to_plain

try:
    from arq.connections import RedisSettings
except ModuleNotFoundError as missing:
    raise Refused("a worker of ARQ needs ARQ; install corral with its extra `arq`") from missing

log = logging.getLogger("corral.tuner")

MONTH_S = 30 * 86400
LOOK_S = 2.0
LOCAL_REDIS = "redis://localhost:6379"


async def run_autotuning_task(ctx: dict[str, Any], task_id: int | str) -> dict[str, Any]:
    """Start a task and wait for its end. Return its result, from the row of the task.

    While the server is away it waits. Raises NotFound, Forbidden, and other refusals of the server.
    """
    begun = False
    while True:
        try:
            row = await asyncio.to_thread(_look, str(task_id), ctx["enqueue_time"], begun)
            begun = True
            if row.status.over:
                return _result(row)
        except BackendFailed as error:
            log.warning("task %s: %s; it is asked for again", task_id, error)
        await asyncio.sleep(LOOK_S)


class WorkerSettings:
    """The settings for `arq`."""

    functions: ClassVar = [run_autotuning_task]
    redis_settings = RedisSettings.from_dsn(os.environ.get("REDIS_URL", LOCAL_REDIS))
    max_jobs = 5
    job_timeout = MONTH_S
    keep_result = 3600
    # A job is retried whenever its worker ends, and only waits.
    max_tries = 1_000


def _look(task_id: str, enqueued_at: datetime, begun: bool) -> TaskRow:
    with Client() as client:
        detail = client.tasks.get(task_id)
        if begun or not _is_to_begin(detail.task, enqueued_at):
            return detail.task
        try:
            _limit_waiting(client, detail)
            return client.tasks.start(task_id)
        except Conflict:
            # Another delivery of the job has started the task.
            return client.tasks.get(task_id).task


def _is_to_begin(row: TaskRow, enqueued_at: datetime) -> bool:
    """Return whether the task must start. An ended task starts again only if the job was enqueued after its end."""
    if row.status is TaskStatus.PENDING:
        return True
    ended_at = row.completed_at
    again = row.status in (TaskStatus.FAILED, TaskStatus.CANCELLED)
    return again and ended_at is not None and enqueued_at.timestamp() > ended_at


def _limit_waiting(client: Client, detail: TaskDetail) -> None:
    # Existing experiments were made with the task's settings, so these stay unchanged.
    if detail.config.gpu_wait_timeout_s is None and not detail.task.total_experiments:
        limited = replace(detail.config, gpu_wait_timeout_s=GPU_WAIT_TIMEOUT_S)
        client.tasks.edit(detail.task.id, to_plain(limited))


def _result(row: TaskRow) -> dict[str, Any]:
    return {
        "task_id": int(row.id),
        "status": str(row.status),
        "error": row.error_message,
        "total_experiments": row.total_experiments,
        "successful_experiments": row.successful_experiments,
        "best_experiment_id": None if row.best_experiment_id is None else int(row.best_experiment_id),
        "elapsed_time": row.elapsed_time,
    }
