"""A model of all candidates, learned from the readings of a few: it predicts scores with their uncertainty.

Each metric of the scores has a Gaussian process of its own for each load, over the parameters, on logarithms. So
similar candidates inform each other. The limits are not learned but computed by their formula, and stay sharp.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corral.features.tuner.search.problem import Problem
from corral.features.tuner.search.regression import Array, GaussianProcess, Lengths, Points, learn
from corral.features.tuner.search.space import Parameters, Row, Value, row_of
from corral.features.tuner.search.trial import Trial

SAMPLES = 48
"""The number of samples that are drawn of a candidate's possible scores."""

SURE_OF_BIAS = 4
"""After this many candidates with short and long readings, half of the measured difference is corrected."""

DOUBT = 0.5
"""A doubted model multiplies the lengths by this factor."""

RELEARN = 1.15
"""Lengths are learned again when the number of candidates has grown by this factor."""

_SEED = 20


@dataclass(frozen=True, slots=True)
class ObservedReadings:
    """Readings as arrays.

    Attributes:
        parameters: the candidates that were measured at all loads, in order of their first trial.
        points: their coordinates, `(candidates, parameters)`.
        metrics: the logarithms by name, `(candidates, levels)`.
        noise_weights: 1 for a candidate that was measured once completely, more for a shorter measurement.
    """

    parameters: list[Parameters]
    points: Points
    metrics: dict[str, Array]
    noise_weights: Array


class Encoding:
    """Converts parameters to points. A value of a list is encoded by its position among the steps."""

    def __init__(self, problem: Problem) -> None:
        self._parameters = problem.space.parameters
        self._places = [
            {value: place / max(len(steps) - 1, 1) for place, value in enumerate(steps)}
            for steps in problem.space.steps
        ]
        self._ordered = tuple(parameter.ordered for parameter in self._parameters)

    def points(self, several: Sequence[Parameters]) -> Points:
        """Return `(candidates, parameters)`, from 0 to 1 for an ordered parameter."""
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
    """Return all readings of these trials, None if none of them was measured at all loads, at least by a probe."""
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
    """Return `(candidates, levels)`: means weighted by minutes, with the bias of short readings corrected.

    A server may behave differently in its first minutes.
    """
    both = (minutes > 0).all(axis=0)
    short, long = totals / np.maximum(minutes, 1e-12)
    bias = float((long - short)[both].sum()) / (float(both.sum()) + SURE_OF_BIAS * minutes.shape[2])
    total = totals.sum(axis=0) + bias * minutes[0]
    return np.asarray(total / np.maximum(minutes.sum(axis=0), 1e-12))


class Surrogate:
    """The model of observed readings, with learned lengths for each metric."""

    def __init__(self, problem: Problem, observed: ObservedReadings, lengths: dict[str, Lengths]) -> None:
        self._problem, self._observed, self._lengths = problem, observed, lengths
        self._processes = {
            name: GaussianProcess(observed.points, values, observed.noise_weights, lengths[name])
            for name, values in observed.metrics.items()
        }

    def believing(self, points: Points) -> "Surrogate":
        """Return the model that also has the expected results of these points: their measurements are running."""
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
        """Return the model with shorter lengths, as if scores changed faster between points."""
        lengths = {
            name: replace(one, of_columns=tuple(length * DOUBT for length in one.of_columns))
            for name, one in self._lengths.items()
        }
        return Surrogate(self._problem, self._observed, lengths)

    def scores(self, candidates: Points) -> Array:
        """Return `(samples, candidates, objectives)`: possible scores of each candidate."""
        normal = np.random.default_rng(_SEED).standard_normal((SAMPLES // 2, len(self._processes)))
        normal = np.concatenate([normal, -normal])
        sampled = {}
        for (name, process), drawn in zip(self._processes.items(), normal.T, strict=True):
            mean, deviation = process.predict(candidates)
            # One number is drawn for all levels: a candidate that is better than expected at one is mostly so at the
            # others.
            sampled[name] = np.exp(np.minimum(mean + deviation * drawn[:, None, None], 100.0))
        return self._problem.scoring.scores(sampled)

    def expected(self, candidates: Points) -> Array:
        """Return `(candidates, objectives)`: the scores of the most likely metrics."""
        logs = {name: process.predict(candidates)[0] for name, process in self._processes.items()}
        return self._problem.scoring.scores({name: np.exp(np.minimum(one, 100.0)) for name, one in logs.items()})


def learn_lengths(observed: ObservedReadings) -> dict[str, Lengths]:
    """Return the learned lengths of each metric by its name."""
    return {name: learn(observed.points, values, observed.noise_weights) for name, values in observed.metrics.items()}


def learned_from(trials: Sequence[Trial]) -> Sequence[Trial]:
    """Return the first trials: as many as there were when the lengths were last due to be learned."""
    found = min(len(trials), 1)
    while (following := max(found + 1, round(found * RELEARN))) <= len(trials):
        found = following
    return trials[:found]
