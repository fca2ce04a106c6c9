"""Pure functions that translate Corral's answers about tasks and experiments for the clients of another autotuner."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from corral.core.model.utc_time import utc_time
from corral.features.tuner.answers import ExperimentRow, TaskDetail, TaskRow
from corral.features.tuner.model.tuning_spec import DeploymentMode, TuningSpec
from corral.features.tuner.other_names.answers import (
    GPU_WAIT_TIMEOUT_S,
    AutotunerExperiment,
    AutotunerTask,
    AutotunerTaskRow,
)
from corral.wire import to_plain


def task_row(row: TaskRow) -> AutotunerTaskRow:
    """A task as a row of a listing."""
    return AutotunerTaskRow(**_own(AutotunerTaskRow, row), **_identity(row))


def task(detail: TaskDetail) -> AutotunerTask:
    """A task with its configuration."""
    row, config = detail.task, detail.config
    return AutotunerTask(
        **_own(AutotunerTask, config),
        **_identity(row),
        model=to_plain(config.model),
        benchmark=to_plain(config.benchmark),
        status=row.status,
        total_experiments=row.total_experiments,
        successful_experiments=row.successful_experiments,
        elapsed_time=row.elapsed_time,
        error_message=row.error_message,
    )


def experiment(row: ExperimentRow) -> AutotunerExperiment:
    """An experiment, translated."""
    return AutotunerExperiment(
        **_own(AutotunerExperiment, row), **_times(row), id=int(row.id), task_id=int(row.task_id)
    )


def with_defaults(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """A task as it was sent, with the defaults that clients of the other autotuner expect."""
    return {"gpu_wait_timeout_s": GPU_WAIT_TIMEOUT_S, "deployment_mode": DeploymentMode.DOCKER.value, **body}


_TRANSLATED = ("id", "task_id", "best_experiment_id", "model", "benchmark", "created_at", "started_at", "completed_at")


def _own(cls: type[Any], of: TaskRow | TuningSpec | ExperimentRow) -> dict[str, Any]:
    """The fields of `cls` that have the same name and meaning in `of`."""
    return {
        field.name: getattr(of, field.name)
        for field in fields(cls)
        if field.name not in _TRANSLATED and hasattr(of, field.name)
    }


def _identity(row: TaskRow) -> dict[str, Any]:
    best = row.best_experiment_id
    return {"id": int(row.id), "best_experiment_id": None if best is None else int(best), **_times(row)}


def _times(row: TaskRow | ExperimentRow) -> dict[str, Any]:
    return {
        "created_at": utc_time(row.created_at),
        "started_at": None if row.started_at is None else utc_time(row.started_at),
        "completed_at": None if row.completed_at is None else utc_time(row.completed_at),
    }
