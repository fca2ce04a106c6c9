"""Answers about the findings of a task of the autotuner, and about the cost of a task before it exists."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.features.tuner.model.experiment import ExperimentStatus


@dataclass(frozen=True, slots=True)
class ExperimentSummary:
    """An experiment in a row of a table. Times are Unix seconds.

    Attributes:
        experiment_id: its number within the task.
        gpus, gpu_model: the GPUs that it had; None before it has any.
        monitored: whether its GPUs were read while it was measured.
        figures: means over the levels by the names of `metrics` (seconds, tokens a second), as far as measured.
        error_message: its end, if it is long.
    """

    id: str
    task_id: str
    experiment_id: int
    parameters: Mapping[str, Any]
    status: ExperimentStatus = ExperimentStatus.PENDING
    job_id: str | None = None
    objective_score: float | None = None
    gpus: int | None = None
    gpu_model: str | None = None
    monitored: bool = False
    figures: Mapping[str, float] = field(default_factory=dict)
    error_message: str | None = None
    created_at: float = 0.0
    started_at: float | None = None
    completed_at: float | None = None


@dataclass(frozen=True, slots=True)
class ExperimentSummaries:
    """Experiments of a task by number, in short."""

    experiments: tuple[ExperimentSummary, ...] = ()


@dataclass(frozen=True, slots=True)
class ParameterImportance:
    """How much a parameter alone says of the order of the scores.

    Attributes:
        values: how many of its values were measured.
        part: of the differences in rank, from 0 to 1, that go with its value; None where too few were measured.
    """

    name: str
    values: int
    part: float | None = None


@dataclass(frozen=True, slots=True)
class MeasuredFront:
    """The experiments that no other beats in two figures at once; `ids` by ascending `x`."""

    x: str
    y: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One measured value of the best experiment and of the default, in words; "-" where it was not measured."""

    label: str
    best: str
    default: str


@dataclass(frozen=True, slots=True)
class TaskFindings:
    """The findings from a task's experiments so far.

    Attributes:
        scored: how many have a score.
        importances: for each parameter with several values, the most important first.
        best_id: the experiment with the lowest score, None while there is none; `default_id` is that with the defaults.
        gain: how much better the best is than the default, in words.
        command: serves the model with the best parameters; None while there is none.
    """

    scored: int = 0
    importances: tuple[ParameterImportance, ...] = ()
    fronts: tuple[MeasuredFront, ...] = ()
    best_id: str | None = None
    default_id: str | None = None
    gain: str | None = None
    figures: tuple[ComparedFigure, ...] = ()
    command: str | None = None


@dataclass(frozen=True, slots=True)
class TaskEstimate:
    """The most that a task takes, as far as it is known before anything is deployed.

    Attributes:
        experiments: the most experiments of the search.
        combinations: the number of combinations; None if a parameter is a range of real numbers.
        gpus_least, gpus_most: whole GPUs of one experiment.
        measuring_s: the most seconds of measuring for one experiment. The time of its deployment is not known before.
        gpu_hours: GPUs times measuring, all experiments together.
        hours: the time until all are measured, if no other job wants the GPUs; None if there are too few GPUs.
        notes: remarks for the task's user before it begins.
        nodes_most: the most nodes of one experiment; with several, it is a gang.
    """

    experiments: int
    combinations: int | None
    gpus_least: int
    gpus_most: int
    measuring_s: float
    gpu_hours: float
    hours: float | None
    notes: tuple[str, ...] = ()
    nodes_most: int = 1
