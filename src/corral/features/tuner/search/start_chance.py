"""Estimates the probability that a combination starts, from earlier starts and failures."""

from collections.abc import Sequence
from itertools import combinations
from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from corral.features.tuner.search.regression import Array, GaussianProcess, Lengths, Points, learn
from corral.features.tuner.search.surrogate import Encoding, learned_from
from corral.features.tuner.search.trial import Trial

LEAST_DEVIATION = 0.1

BY_CHANCE = 2
"""This many failures of a pair of values may have other reasons."""


class StartChance:
    """The lower of two probabilities: by similar combinations, and by the pair of values that failed most.

    Similar combinations show limits of memory. A pair shows values that do not work together, at any distance.
    """

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._learned: tuple[tuple[int, ...], Lengths] | None = None

    def of_candidates(self, trials: tuple[Trial, ...], candidates: Points) -> Array:
        """Return `(candidates,)`: the probabilities; 1 for all if nothing has failed."""
        told = [trial for trial in trials if trial.failure is not None or trial.readings]
        if all(trial.failure is None for trial in told):
            return np.ones(len(candidates.values))
        points, signs = self._points(told), _signs(told)
        process = GaussianProcess(points, signs, np.ones(len(told)), self._lengths(told))
        mean, deviation = process.predict(candidates)
        ratio = (mean / np.maximum(deviation, LEAST_DEVIATION))[:, 0]
        by_nearness = np.array([0.5 * (1 + erf(one / sqrt(2))) for one in ratio])
        return np.asarray(np.minimum(by_nearness, _by_pairs(points, signs[:, 0] > 0, candidates)))

    def _points(self, trials: Sequence[Trial]) -> Points:
        return self._encoding.points([trial.parameters for trial in trials])

    def _lengths(self, told: Sequence[Trial]) -> Lengths:
        known = learned_from(told)
        numbers = tuple(trial.number for trial in known)
        if self._learned is None or self._learned[0] != numbers:
            self._learned = numbers, learn(self._points(known), _signs(known), np.ones(len(known)))
        return self._learned[1]


def _signs(trials: Sequence[Trial]) -> Array:
    return np.array([[1.0 if trial.failure is None else -1.0] for trial in trials])


def _by_pairs(points: Points, ran: NDArray[np.bool_], candidates: Points) -> Array:
    """Return the minimum over all pairs of values: 1 if a candidate with both ran, lower the more of them failed."""
    same = (candidates.values[:, None, :] == points.values[None, :, :]).astype(np.float32)
    counted = np.stack([ran, ~ran], axis=1).astype(np.float32)
    least = np.ones(len(candidates.values))
    for one, other in combinations(range(same.shape[2]), 2):
        runs, failures = ((same[:, :, one] * same[:, :, other]) @ counted).T
        least = np.minimum(least, np.where(runs > 0, 1.0, (BY_CHANCE + 1) / (failures + 1)))
    return least
