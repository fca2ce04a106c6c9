"""The findings from a task's experiments: the importance of parameters, the Pareto fronts, and the best. Pure."""

from collections.abc import Sequence
from math import inf

from corral.config.tuner import TunerSettings
from corral.features.tuner.answers import ExperimentRow, TaskDetail
from corral.features.tuner.finding_answers import ComparedFigure, ExperimentSummary, MeasuredFront, TaskFindings
from corral.features.tuner.tasks.parameter_importance import importances
from corral.features.tuner.tasks.serving_plan import serving_command
from corral.features.tuner.tasks.task_report import best_of, default_of, figures, gain_in_words, scored

THROUGHPUT = "mean_total_throughput_per_gpu"
FRONTS = (("mean_e2e_latency", THROUGHPUT), ("mean_ttft", THROUGHPUT), ("mean_tpot", THROUGHPUT))
"""Pairs of figures: the first should be small and the second large."""


def best_and_default(
    detail: TaskDetail, summaries: Sequence[ExperimentSummary]
) -> tuple[ExperimentSummary | None, ExperimentSummary | None]:
    """Return the experiment with the lowest score, and the first with the engine's defaults; None for a missing one."""
    return best_of(summaries), default_of(detail, summaries)


def findings(
    detail: TaskDetail,
    summaries: Sequence[ExperimentSummary],
    best: ExperimentRow | None,
    default: ExperimentRow | None,
    site: TunerSettings,
) -> TaskFindings:
    """Return the findings. `best` and `default` are those of `best_and_default`, with their metrics."""
    measured = scored(summaries)
    found = TaskFindings(
        scored=len(measured),
        importances=importances([(one.parameters, one.objective_score or 0.0) for one in measured]),
        fronts=tuple(_front(x, y, summaries) for x, y in FRONTS),
    )
    if best is None:
        return found
    return TaskFindings(
        scored=found.scored,
        importances=found.importances,
        fronts=found.fronts,
        best_id=best.id,
        default_id=None if default is None else default.id,
        gain=gain_in_words(detail, best, default),
        figures=tuple(ComparedFigure(*one) for one in figures(best, default)),
        command=serving_command(detail, best, site),
    )


def _front(x: str, y: str, summaries: Sequence[ExperimentSummary]) -> MeasuredFront:
    """Return the Pareto front of two figures. One pass in the order of the first is faster here than `not_beaten`."""
    measured = [one for one in summaries if one.status == "success" and x in one.figures and y in one.figures]
    measured.sort(key=lambda one: (one.figures[x], -one.figures[y], one.experiment_id))
    front: list[str] = []
    most = -inf
    for one in measured:
        if one.figures[y] > most:
            most = one.figures[y]
            front.append(one.id)
    return MeasuredFront(x, y, tuple(front))
