"""Regression by a Gaussian process: predicts values at unmeasured points, with their uncertainty.

The covariance is a Matern 5/2 function of the distance between two points, with a length for each column. The lengths
and the noise maximize the likelihood of the measurements, under weak priors.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LENGTH, _LENGTH_SPREAD = 1.0, 1.0
_NOISE, _NOISE_SPREAD = 0.01, 2.0
_JITTER = 1e-6
_FACTORS = (4.0, 2.0, 1.4)
"""The factors by which a length or the noise is changed in the search for the maximum; coarse steps first."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """The learned parameters of a process.

    Attributes:
        of_columns: the distance up to which points are similar, by column; columns are within 0 and 1.
        noise: the variance of a measurement of weight 1, as a part of the variance of the values.
    """

    of_columns: tuple[float, ...]
    noise: float


@dataclass(frozen=True, slots=True)
class Points:
    """The coordinates of points, `(points, columns)`.

    In a column that is not `ordered` all different values are equally far apart.
    """

    values: Array
    ordered: tuple[bool, ...]

    def column_distances(self) -> Array:
        """Return `(columns, points, points)`: the squared distances of the points in each column."""
        apart = self.values.T[:, :, None] - self.values.T[:, None, :]
        return np.where(np.array(self.ordered)[:, None, None], apart * apart, apart != 0)

    def distances(self, other: "Points", lengths: Sequence[float]) -> Array:
        """Return `(points, others)`: the squared distances in units of the columns' lengths."""
        total = np.zeros((len(self.values), len(other.values)))
        for column, (ordered, length) in enumerate(zip(self.ordered, lengths, strict=True)):
            if not ordered:
                total += (self.values[:, column, None] != other.values[:, column]) / length**2
        ordered_columns = np.array(self.ordered)
        one, two = ((points.values / lengths)[:, ordered_columns] for points in (self, other))
        total += (one * one).sum(axis=1)[:, None] + (two * two).sum(axis=1) - 2.0 * one @ two.T
        return np.maximum(total, 0.0)


def learn(points: Points, values: Array, noise_weights: Array) -> Lengths:
    """Return the most likely lengths and noise of values `(points, columns)`.

    `noise_weights`, `(points,)`, multiply the noise: 4 for a measurement of a quarter of the time.
    """
    distances = points.column_distances()
    centred = values - values.mean(axis=0)

    def likelihood(logs: Array) -> float:
        return _likelihood(distances, centred, noise_weights, np.exp(logs))

    columns = len(points.ordered)
    start = np.log(np.array([_LENGTH] * columns + [_NOISE]))
    found = np.exp(_climb(likelihood, start))
    return Lengths(tuple(map(float, found[:-1])), float(found[-1]))


class GaussianProcess:
    """The posterior of values that were measured at points, with learned lengths.

    `values` are `(points, columns)`: each column is a function of its own, and all have the same lengths.
    """

    def __init__(self, points: Points, values: Array, noise_weights: Array, lengths: Lengths) -> None:
        self._points, self._lengths = points, lengths
        self._mean = values.mean(axis=0)
        covariance = _correlation(points.distances(points, lengths.of_columns))
        covariance[np.diag_indices_from(covariance)] += lengths.noise * noise_weights + _JITTER
        self._root_inverse = np.linalg.inv(np.linalg.cholesky(covariance))
        whitened = self._root_inverse @ (values - self._mean)
        self._weights = self._root_inverse.T @ whitened
        self._variance = np.maximum((whitened * whitened).mean(axis=0), 1e-12)

    def predict(self, points: Points) -> tuple[Array, Array]:
        """Return mean and standard deviation, `(points, columns)` each, of the values without noise."""
        between = _correlation(points.distances(self._points, self._lengths.of_columns))
        mean = self._mean + between @ self._weights
        explained = ((between @ self._root_inverse.T) ** 2).sum(axis=1)
        return mean, np.sqrt(np.maximum(1.0 - explained, 1e-9)[:, None] * self._variance)


def _correlation(distances: Array) -> Array:
    scaled = np.sqrt(5.0 * distances)
    return np.asarray((1.0 + scaled + scaled * scaled / 3.0) * np.exp(-scaled))


def _likelihood(distances: Array, centred: Array, noise_weights: Array, found: Array) -> float:
    """Return the log likelihood with the log priors, as the mean over all columns, which mostly agree.

    The variance of the values is the most likely one, which has a closed form.
    """
    covariance = _correlation(np.tensordot(1.0 / found[:-1] ** 2, distances, axes=1))
    covariance[np.diag_indices_from(covariance)] += found[-1] * noise_weights + _JITTER
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return -math.inf
    whitened = np.linalg.solve(root, centred)
    count = len(centred)
    variances = ((whitened * whitened).sum(axis=0) + 1e-6) / count
    prior = float((np.log(found[:-1] / _LENGTH) ** 2).sum()) / (2 * _LENGTH_SPREAD**2)
    prior += math.log(float(found[-1]) / _NOISE) ** 2 / (2 * _NOISE_SPREAD**2)
    return -0.5 * count * float(np.log(variances).mean()) - float(np.log(np.diag(root)).sum()) - prior


def _climb(likelihood: Callable[[Array], float], start: Array) -> Array:
    """Maximize the likelihood: change one number after another while that helps."""
    best, most = start, likelihood(start)
    for factor in _FACTORS:
        for index in range(len(start)):
            for step in (math.log(factor), -math.log(factor)):
                changed = best.copy()
                changed[index] += step
                found = likelihood(changed)
                if found > most:
                    best, most = changed, found
                    break
    return best
