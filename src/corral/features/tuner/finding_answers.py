"""Answers about the findings of a task of the autotuner, and about the cost of a task before it exists."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.features.services.selection import USUAL, NodeSelection
from corral.features.services.service_wanted import ServiceWanted
from corral.features.tuner.model.experiment import ExperimentStatus
from corral.features.tuner.model.tuning_spec import DeploymentMode


@dataclass(frozen=True, slots=True)
class ExperimentSummary:
    """An experiment in a row of a table. Times are Unix seconds.

    Attributes:
        experiment_id: its number within the task.
        gpus, gpu_model: the GPUs that it had; None before it has any.
        monitored: whether its GPUs were read while it was measured.
        figures: means over the levels by the names of `metrics` (seconds, tokens a second), as far as measured.
        error_message: its end, if it is long.
        repeats: the number of the experiment that it measures again, None for a new combination.
        disturbances: what may have disturbed its measurement, a phrase for each.
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
    repeats: int | None = None
    disturbances: tuple[str, ...] = ()


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
    """The experiments that no other on the same model of GPU beats in two figures at once; `ids` by model, then `x`."""

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
class BestOnModel:
    """The best combination on one model of GPU.

    Attributes:
        gpu_model: None if it is not known.
        best_id: its first experiment; `default_id` is that with the defaults, None if there is none.
        gain: how much better the best is than the default, in words.
        sureness: how far repeats differ, and which experiments are as good, in words.
        measured_by: the ids of all experiments that measured it, whose means are the `figures`.
        ties: the ids of experiments that differ from it by no more than repeats do.
        command: serves the model with these parameters.
    """

    gpu_model: str | None
    best_id: str
    default_id: str | None
    gain: str
    sureness: str
    measured_by: tuple[str, ...]
    ties: tuple[str, ...]
    figures: tuple[ComparedFigure, ...]
    command: str


@dataclass(frozen=True, slots=True)
class TaskFindings:
    """The findings from a task's experiments so far.

    Attributes:
        scored: how many have a score.
        importances: for each parameter with several values, the most important first.
        best_id, default_id, gain, sureness, measured_by, ties, figures, command: as in `BestOnModel`; empty while there
            is no best, and if experiments ran on several models of GPU, whose figures do not compare.
        by_gpu_model: with several models, the best on each.
    """

    scored: int = 0
    importances: tuple[ParameterImportance, ...] = ()
    fronts: tuple[MeasuredFront, ...] = ()
    best_id: str | None = None
    default_id: str | None = None
    gain: str | None = None
    sureness: str | None = None
    measured_by: tuple[str, ...] = ()
    ties: tuple[str, ...] = ()
    figures: tuple[ComparedFigure, ...] = ()
    command: str | None = None
    by_gpu_model: tuple[BestOnModel, ...] = ()


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """The way to serve a model as an experiment of a task did.

    Attributes:
        experiment_id: its number within the task.
        gpus: the GPUs that it had.
        command: the shell command; of variables it has the names alone.
        service: the model service in a cluster; None for a server that was a job.
        selection: how the node of the service was chosen.
        env_withheld: the variables of the server, if there are some, are not in the plan: the caller may not see them.
    """

    task_id: str
    experiment_id: int
    deployment_mode: DeploymentMode
    gpus: int
    command: str
    service: ServiceWanted | None = None
    selection: NodeSelection = USUAL
    env_withheld: bool = False


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
