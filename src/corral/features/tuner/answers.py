"""Answers about tasks of the autotuner and their experiments."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.features.tuner.model.experiment import ExperimentStatus
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.model.tuning_task import TaskStatus


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as it is listed.

    Attributes:
        planned_experiments: the most experiments of the search, including repeated measurements of a race's leaders;
            None before it is known.
        total_experiments: the number of existing experiments, including running ones.
        best_experiment_id: the first experiment of the combination with the lowest mean score, `best_score`; None if
            none has one, or if experiments ran on several models of GPU.
        elapsed_time: seconds since its start, or from its start to its end; None before it.
        notes: remarks for its user before it begins.
    """

    id: str
    user: str
    task_name: str
    model: str
    base_runtime: str
    deployment_mode: str
    objective: str
    status: TaskStatus = TaskStatus.PENDING
    description: str = ""
    total_experiments: int = 0
    successful_experiments: int = 0
    planned_experiments: int | None = None
    best_experiment_id: str | None = None
    best_score: float | None = None
    error_message: str | None = None
    created_at: float = 0.0
    started_at: float | None = None
    completed_at: float | None = None
    elapsed_time: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """A task with its specification. The variables of its servers are left out for users who may not see them."""

    task: TaskRow
    config: TuningSpec


@dataclass(frozen=True, slots=True)
class TaskList:
    """Tasks, newest first."""

    tasks: tuple[TaskRow, ...] = ()


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """An experiment. Times are Unix seconds.

    Attributes:
        experiment_id: its number within the task.
        search_state: the state of the search strategy.
        metrics: the measurements; a list of experiments has them only if asked for.
        repeats: the number of the experiment that it measures again, None for a new combination.
        noise: what may have disturbed its measurement: "same_gpu" and "same_node" (neighbours), "throttled" (a part of
            the time) and "slow_clocks" by GPU, as far as known; None before it is measured. `disturbances` is the same
            in words, a phrase for each.
        elapsed_time: seconds since its deployment began, or from then to its end; None before it.
    """

    id: str
    task_id: str
    experiment_id: int
    parameters: Mapping[str, Any]
    status: ExperimentStatus = ExperimentStatus.PENDING
    search_state: Mapping[str, Any] = field(default_factory=dict)
    job_id: str | None = None
    service_name: str | None = None
    service_url: str | None = None
    error_message: str | None = None
    objective_score: float | None = None
    gpu_info: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] | None = None
    created_at: float = 0.0
    started_at: float | None = None
    completed_at: float | None = None
    elapsed_time: float | None = None
    repeats: int | None = None
    noise: Mapping[str, Any] | None = None
    disturbances: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExperimentList:
    """Experiments of a task by number."""

    experiments: tuple[ExperimentRow, ...] = ()
