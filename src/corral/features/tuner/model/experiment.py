"""An experiment of a task: one combination of parameters, deployed and measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MEASURED_IN_PART = "measured in part: no score"
"""The text for a success without a score: a probe, whose parameters may be measured again, or an early stop."""


class ExperimentStatus(StrEnum):
    """The state of an experiment."""

    PENDING = "pending"
    DEPLOYING = "deploying"
    BENCHMARKING = "benchmarking"
    SUCCESS = "success"
    FAILED = "failed"

    @property
    def over(self) -> bool:
        """Whether the state is final."""
        return self in (ExperimentStatus.SUCCESS, ExperimentStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment.

    Attributes:
        id: from the same numbers as the ids of jobs.
        experiment_id: its number within the task, from 1 without gaps.
        parameters: by name, as the search chose them.
        job_id: the job that serves the model; None before it is submitted.
        search_state: the state of the search strategy, so that a search can continue after a crash.
        objective_score: lower is better; None unless it was measured.
        gpu_info: its GPUs, in the form of autotuners.
        repeats: the number of the experiment that it measures again, None for a new combination.
        noise: what may have disturbed its measurement, in the form of `measuring.noise`; None before it is measured.
    """

    id: str
    task_id: str
    experiment_id: int
    parameters: Mapping[str, Any]
    created_at: float
    status: ExperimentStatus = ExperimentStatus.PENDING
    search_state: Mapping[str, Any] = field(default_factory=dict)
    job_id: str | None = None
    service_name: str | None = None
    service_url: str | None = None
    started_at: float | None = None
    completed_at: float | None = None
    error_message: str | None = None
    objective_score: float | None = None
    gpu_info: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] | None = None
    repeats: int | None = None
    noise: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ExperimentChange:
    """The new values of an experiment's fields; None leaves a value as it is."""

    status: ExperimentStatus | None = None
    job_id: str | None = None
    service_name: str | None = None
    service_url: str | None = None
    error_message: str | None = None
    objective_score: float | None = None
    gpu_info: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] | None = None
    search_state: Mapping[str, Any] | None = None
    noise: Mapping[str, Any] | None = None
