"""The best combination of a task on each model of GPU, and how sure that is. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Generic, NamedTuple, TypeVar

from corral.features.tuner.answers import ExperimentRow
from corral.features.tuner.finding_answers import ExperimentSummary
from corral.features.tuner.measuring.gpu_records import model_in
from corral.features.tuner.search.standing import ScoredMeasurement, standings

NAMED = 5
"""The most experiments that a sentence names."""

Tried = TypeVar("Tried", ExperimentRow, ExperimentSummary)
"""An experiment with its metrics, or its summary."""


class BestCombination(NamedTuple, Generic[Tried]):
    """The best combination on one model of GPU (None: unknown).

    Attributes:
        experiments: those that measured it, by number.
        spread: the largest difference between measurements of one combination, as a part of their mean score; None if
            none was measured twice.
        ties: the first experiments of combinations that do not differ from it by more than that, best first.
        others: the number of further combinations that were measured on this model.
        untried: the first experiments of combinations that were tried on other models of GPU only.
    """

    gpu_model: str | None
    experiments: tuple[Tried, ...]
    spread: float | None
    ties: tuple[Tried, ...]
    others: int
    untried: tuple[Tried, ...] = ()


def best_combinations(experiments: Sequence[Tried]) -> tuple[BestCombination[Tried], ...]:
    """Return the best combination on each model of GPU; () if no experiment has a score."""
    by_number = {one.experiment_id: one for one in scored(experiments)}
    measured = (
        ScoredMeasurement(number, combination_of(one), one.objective_score or 0.0, gpu_model_of(one))
        for number, one in by_number.items()
    )
    rankings = standings(measured)
    return tuple(
        BestCombination(
            found.gpu_model,
            tuple(by_number[number] for number in found.places[0].numbers),
            found.spread,
            tuple(by_number[place.numbers[0]] for place in found.finalists[1:]),
            len(found.places) - 1,
            _untried(experiments, found.gpu_model) if len(rankings) > 1 else (),
        )
        for found in rankings
    )


def _untried(experiments: Sequence[Tried], gpu_model: str | None) -> tuple[Tried, ...]:
    first: dict[str, Tried] = {}
    here = set()
    for one in sorted(experiments, key=lambda one: one.experiment_id):
        combination = combination_of(one)
        if gpu_model_of(one) == gpu_model:
            here.add(combination)
        elif gpu_model_of(one) is not None:
            first.setdefault(combination, one)
    return tuple(one for combination, one in first.items() if combination not in here)


def scored(experiments: Sequence[Tried]) -> list[Tried]:
    """Return the completely measured experiments, which can be the best."""
    return [one for one in experiments if one.status == "success" and one.objective_score is not None]


def gpu_model_of(one: ExperimentRow | ExperimentSummary) -> str | None:
    """Return the model of an experiment's GPUs, None if it is not known."""
    return one.gpu_model if isinstance(one, ExperimentSummary) else model_in(one.gpu_info)


def combination_of(one: ExperimentRow | ExperimentSummary) -> str:
    """Return the parameters of an experiment as a text that is the same for the same parameters."""
    return json.dumps(one.parameters, sort_keys=True)


def mean_of(rows: Sequence[ExperimentRow]) -> ExperimentRow:
    """Return the first of several measurements of a combination with the means of their metrics and scores."""
    every = [row.metrics or {} for row in rows]
    means = {
        name: fmean(values)
        for name, value in every[0].items()
        if type(value) is float and len(values := _numbers(name, every)) == len(every)
    }
    scores = [row.objective_score for row in rows if row.objective_score is not None]
    return replace(rows[0], metrics={**every[0], **means}, objective_score=fmean(scores) if scores else None)


def _numbers(name: str, every: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the values of a metric that are numbers: the user of a task may write any values there."""
    return [float(value) for one in every if isinstance(value := one.get(name), int | float)]


def sureness(best: BestCombination[Tried]) -> str:
    """Return how far repeats differ, which combinations are as good, and which were not tried on this model of GPU."""
    if not best.untried:
        return _by_repeats(best)
    return f"{_by_repeats(best)}; not tried on this model of GPU: {_named(best.untried)}"


def _by_repeats(best: BestCombination[Tried]) -> str:
    if best.spread is None:
        return "measured once, so it is not known how far repeats differ"
    times = len(best.experiments)
    said = "measured once" if times == 1 else f"mean of {times} measurements"
    said += f"; scores of one combination differ by up to {best.spread:.1%}"
    if not best.others:
        return f"{said}; no other combination was measured" + (f" on {best.gpu_model}" if best.gpu_model else "")
    if not best.ties:
        return said + ", and no other is within that"
    return f"{said}, and {_named(best.ties)} {'is' if len(best.ties) == 1 else 'are'} within that: a tie"


def _named(experiments: Sequence[Tried]) -> str:
    """Return "experiment 2", "experiments 2 and 3" or, of many, the first ones and the number of the others."""
    numbers = [str(one.experiment_id) for one in experiments]
    if len(numbers) > NAMED + 1:
        numbers[NAMED:] = [f"{len(numbers) - NAMED} others"]
    return (
        f"experiment {numbers[0]}" if len(numbers) == 1 else f"experiments {', '.join(numbers[:-1])} and {numbers[-1]}"
    )
