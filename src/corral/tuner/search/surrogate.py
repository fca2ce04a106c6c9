"""A model of all candidates, learned from the readings of a few: what each would score, and how sure that is.

Each metric that scores are made of has a process of its own for each load, over the parameters, on logarithms. So what
is like a candidate tells something of it, and a limit is as sharp as its formula has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corral.tuner.search.problem import Problem
from corral.tuner.search.regression import Array, GaussianProcess, Lengths, Points, learn
from corral.tuner.search.space import Parameters, Row, Value, row_of
from corral.tuner.search.trial import Trial

SAMPLES = 48
"""So many cases are drawn of what a candidate may score."""

SURE_OF_BIAS = 4
"""After so many candidates that had both, half of how short readings differ from long ones is believed."""

DOUBT = 0.5
"""A doubted model has these parts of the lengths."""

RELEARN = 1.15
"""Lengths are learned anew when there are so many times as many candidates."""

_SEED = 20


@dataclass(frozen=True, slots=True)
class ObservedReadings:
    """Readings as numbers.

    Attributes:
        parameters: the candidates that were measured at all loads, by their first trial.
        points: where they are, `(candidates, parameters)`.
        metrics: by name the logarithms, `(candidates, levels)`.
        noise_weights: 1 for a candidate that was measured once in whole, more for a shorter measurement.
    """

    parameters: list[Parameters]
    points: Points
    metrics: dict[str, Array]
    noise_weights: Array


class Encoding:
    """Turns parameters into points. A number of a list is known by its place among them."""

    def __init__(self, problem: Problem) -> None:
        self._parameters = problem.space.parameters
        self._places = [
            {value: place / max(len(steps) - 1, 1) for place, value in enumerate(steps)}
            for steps in problem.space.steps
        ]
        self._ordered = tuple(parameter.ordered for parameter in self._parameters)

    def points(self, several: Sequence[Parameters]) -> Points:
        """`(candidates, parameters)`, from 0 to 1 where a parameter is ordered."""
        rows = [self._candidate(parameters) for parameters in several]
        return Points(np.array(rows).reshape(len(rows), len(self._parameters)), self._ordered)

    def _candidate(self, parameters: Parameters) -> list[float]:
        return [
            _place(places, parameters[parameter.name])
            for parameter, places in zip(self._parameters, self._places, strict=True)
        ]


def _place(places: dict[Value, float], value: Value) -> float:
    if value in places or not isinstance(value, int | float):
        return places[value]
    known = [(float(step), place) for step, place in places.items() if isinstance(step, int | float)]
    return float(np.interp(value, [step for step, _ in known], [place for _, place in known]))


def observe(problem: Problem, encoding: Encoding, trials: Sequence[Trial]) -> ObservedReadings | None:
    """All readings of these trials; None where none of them was measured at all loads, by a probe at least."""
    readings = [(trial, reading) for trial in trials for reading in trial.readings]
    readings = [one for one in readings if problem.scoring.arrays([one[1]]) is not None]
    arrays = problem.scoring.arrays([reading for _, reading in readings])
    if arrays is None or any((values <= 0).any() for values in arrays.values()):
        return None
    levels = {(level.scenario, level.concurrency): index for index, level in enumerate(problem.levels)}
    parameters: dict[Row, Parameters] = {row_of(trial.parameters): trial.parameters for trial, _ in readings}
    rows = {row: index for index, row in enumerate(parameters)}
    minutes = np.zeros((2, len(rows), len(levels)))  # of short readings and of long ones
    totals = {name: np.zeros_like(minutes) for name in arrays}
    for index, (trial, reading) in enumerate(readings):
        level = levels[reading.level.scenario, reading.level.concurrency]
        at = int(reading.level.minutes >= problem.levels[level].minutes), rows[row_of(trial.parameters)], level
        minutes[at] += reading.level.minutes
        for name, values in arrays.items():
            totals[name][at] += np.log(values[index]) * reading.level.minutes
    complete = (minutes.sum(axis=0) > 0).all(axis=1)
    if not complete.any():
        return None
    kept = [one for one, whole in zip(parameters.values(), complete, strict=True) if whole]
    whole_minutes = sum(level.minutes for level in problem.levels)
    return ObservedReadings(
        kept,
        encoding.points(kept),
        {name: _without_bias(total, minutes)[complete] for name, total in totals.items()},
        whole_minutes / minutes.sum(axis=(0, 2))[complete],
    )


def _without_bias(totals: Array, minutes: Array) -> Array:
    """`(candidates, levels)`: means by minutes, the short readings corrected: a server may do otherwise at first."""
    both = (minutes > 0).all(axis=0)
    short, long = totals / np.maximum(minutes, 1e-12)
    bias = float((long - short)[both].sum()) / (float(both.sum()) + SURE_OF_BIAS * minutes.shape[2])
    total = totals.sum(axis=0) + bias * minutes[0]
    return np.asarray(total / np.maximum(minutes.sum(axis=0), 1e-12))


class Surrogate:
    """The model of what was observed, by lengths that were learned of each metric."""

    def __init__(self, problem: Problem, observed: ObservedReadings, lengths: dict[str, Lengths]) -> None:
        self._problem, self._observed, self._lengths = problem, observed, lengths
        self._processes = {
            name: GaussianProcess(observed.points, values, observed.noise_weights, lengths[name])
            for name, values in observed.metrics.items()
        }

    def believing(self, points: Points) -> "Surrogate":
        """As if these had been measured, with what is expected of them: what is being measured is known soon."""
        observed = self._observed
        metrics = {
            name: np.vstack([values, self._processes[name].predict(points)[0]])
            for name, values in observed.metrics.items()
        }
        places = Points(np.vstack([observed.points.values, points.values]), points.ordered)
        weights = np.concatenate([observed.noise_weights, np.ones(len(points.values))])
        believed = replace(observed, points=places, metrics=metrics, noise_weights=weights)
        return Surrogate(self._problem, believed, self._lengths)

    def doubted(self) -> "Surrogate":
        """As if all changed sooner from place to place than was learned."""
        lengths = {
            name: replace(one, of_columns=tuple(length * DOUBT for length in one.of_columns))
            for name, one in self._lengths.items()
        }
        return Surrogate(self._problem, self._observed, lengths)

    def scores(self, candidates: Points) -> Array:
        """`(samples, candidates, objectives)`: what each candidate may score."""
        normal = np.random.default_rng(_SEED).standard_normal((SAMPLES // 2, len(self._processes)))
        normal = np.concatenate([normal, -normal])
        sampled = {}
        for (name, process), drawn in zip(self._processes.items(), normal.T, strict=True):
            mean, deviation = process.predict(candidates)
            # One number for all levels: what is better than expected at one of them mostly is so at the others.
            sampled[name] = np.exp(np.minimum(mean + deviation * drawn[:, None, None], 100.0))
        return self._problem.scoring.scores(sampled)

    def expected(self, candidates: Points) -> Array:
        """`(candidates, objectives)`: the scores of the likeliest metrics."""
        logs = {name: process.predict(candidates)[0] for name, process in self._processes.items()}
        return self._problem.scoring.scores({name: np.exp(np.minimum(one, 100.0)) for name, one in logs.items()})


def learn_lengths(observed: ObservedReadings) -> dict[str, Lengths]:
    """Of each metric by its name."""
    return {name: learn(observed.points, values, observed.noise_weights) for name, values in observed.metrics.items()}


def learned_from(trials: Sequence[Trial]) -> Sequence[Trial]:
    """The first ones, as many as were there when lengths were last to be learned."""
    found = min(len(trials), 1)
    while (following := max(found + 1, round(found * RELEARN))) <= len(trials):
        found = following
    return trials[:found]
