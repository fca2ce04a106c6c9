"""The findings from a task's experiments: the importance of parameters, the Pareto fronts, and the best. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from corral.config.tuner import TunerSettings
from corral.features.tuner.answers import ExperimentRow, TaskDetail
from corral.features.tuner.finding_answers import (
    BestOnModel,
    ComparedFigure,
    ExperimentSummary,
    MeasuredFront,
    TaskFindings,
)
from corral.features.tuner.tasks.best_combinations import (
    BestCombination,
    best_combinations,
    mean_of,
    scored,
    sureness,
)
from corral.features.tuner.tasks.parameter_importance import importances
from corral.features.tuner.tasks.serving_plan import serving_command
from corral.features.tuner.tasks.task_report import default_of, figures, gain_in_words

THROUGHPUT = "mean_total_throughput_per_gpu"
FRONTS = (("mean_e2e_latency", THROUGHPUT), ("mean_ttft", THROUGHPUT), ("mean_tpot", THROUGHPUT))
"""Pairs of figures: the first should be small and the second large."""


class MeasuredBest(NamedTuple):
    """The best combination on a model of GPU, and the means of its measurements and of those of the default."""

    best: BestCombination[ExperimentSummary]
    row: ExperimentRow
    default: ExperimentRow | None


def measured_bests(
    detail: TaskDetail, summaries: Sequence[ExperimentSummary], find: Callable[[str], ExperimentRow]
) -> tuple[MeasuredBest, ...]:
    """Return the best on each model of GPU. `find` returns an experiment with its metrics."""
    found = []
    for best in best_combinations(summaries):
        row = mean_of([find(one.id) for one in best.experiments])
        default = [find(one.id) for one in default_of(detail, summaries, best.gpu_model)]
        found.append(MeasuredBest(best, row, mean_of(default) if default else None))
    return tuple(found)


def findings(
    detail: TaskDetail, summaries: Sequence[ExperimentSummary], bests: Sequence[MeasuredBest], site: TunerSettings
) -> TaskFindings:
    """Return the findings. `bests` are those of `measured_bests`."""
    measured = scored(summaries)
    found = TaskFindings(
        scored=len(measured),
        importances=importances([(one.parameters, one.objective_score or 0.0) for one in measured]),
        fronts=tuple(_front(x, y, summaries) for x, y in FRONTS),
    )
    told = tuple(_told(detail, one, site) for one in bests)
    if len(told) != 1:
        return replace(found, by_gpu_model=told)
    (best,) = told
    return replace(
        found,
        best_id=best.best_id,
        default_id=best.default_id,
        gain=best.gain,
        sureness=best.sureness,
        measured_by=best.measured_by,
        ties=best.ties,
        figures=best.figures,
        command=best.command,
    )


def _told(detail: TaskDetail, one: MeasuredBest, site: TunerSettings) -> BestOnModel:
    return BestOnModel(
        gpu_model=one.best.gpu_model,
        best_id=one.row.id,
        default_id=None if one.default is None else one.default.id,
        gain=gain_in_words(detail, one.row, one.default),
        sureness=sureness(one.best),
        measured_by=tuple(each.id for each in one.best.experiments),
        ties=tuple(each.id for each in one.best.ties),
        figures=tuple(ComparedFigure(*each) for each in figures(one.row, one.default)),
        command=serving_command(detail, one.row, site),
    )


def _front(x: str, y: str, summaries: Sequence[ExperimentSummary]) -> MeasuredFront:
    """Return the Pareto fronts of two figures on each model of GPU, because figures of several do not compare."""
    of_models: dict[str | None, list[ExperimentSummary]] = {}
    for one in summaries:
        of_models.setdefault(one.gpu_model, []).append(one)
    return MeasuredFront(x, y, tuple(found for rows in of_models.values() for found in _not_beaten(x, y, rows)))


def _not_beaten(x: str, y: str, summaries: Sequence[ExperimentSummary]) -> tuple[str, ...]:
    """Return the ids of a front. One pass in the order of the first figure is faster here than `not_beaten`."""
    measured = [one for one in summaries if one.status == "success" and x in one.figures and y in one.figures]
    measured.sort(key=lambda one: (one.figures[x], -one.figures[y], one.experiment_id))
    front: list[str] = []
    most = -inf
    for one in measured:
        if one.figures[y] > most:
            most = one.figures[y]
            front.append(one.id)
    return tuple(front)
