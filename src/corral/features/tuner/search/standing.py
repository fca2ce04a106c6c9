"""Ranks the combinations of a task by their measurements, and finds those that are as good as the best. Pure.

A combination may be measured several times, and figures are compared only on one model of GPU. The spread of a
combination is the difference of its measurements. Another combination within that of the best is as good: a tie.
"""

from collections.abc import Hashable, Iterable
from math import inf
from typing import NamedTuple


class ScoredMeasurement(NamedTuple):
    """One complete measurement: the number of its experiment, and the score, of which the lowest is the best."""

    number: int
    combination: Hashable
    score: float
    gpu_model: str | None


class RankedCombination(NamedTuple):
    """One combination: the numbers of its experiments, and their scores."""

    numbers: tuple[int, ...]
    scores: tuple[float, ...]

    @property
    def score(self) -> float:
        """The mean of its scores."""
        return sum(self.scores) / len(self.scores)

    @property
    def spread(self) -> float | None:
        """The largest difference of its scores as a part of their mean, None for a single one."""
        apart = max(self.scores) - min(self.scores)
        return None if len(self.scores) < 2 else _part(apart, self.score)


class GpuModelRanking(NamedTuple):
    """The combinations on one model of GPU (None is an unknown one), the best first."""

    gpu_model: str | None
    places: tuple[RankedCombination, ...]

    @property
    def spread(self) -> float | None:
        """The largest spread of a combination, None if none was measured twice."""
        return max((one.spread for one in self.places if one.spread is not None), default=None)

    @property
    def finalists(self) -> tuple[RankedCombination, ...]:
        """The best, and those that do not differ from it by more than the spread."""
        best, spread = self.places[0], self.spread or 0.0
        return tuple(one for one in self.places if _part(one.score - best.score, best.score) <= spread)


def standings(measured: Iterable[ScoredMeasurement]) -> tuple[GpuModelRanking, ...]:
    """Return the standing on each model of GPU, by the name of the model."""
    found: dict[str | None, dict[Hashable, list[ScoredMeasurement]]] = {}
    for one in sorted(measured, key=lambda one: one.number):
        found.setdefault(one.gpu_model, {}).setdefault(one.combination, []).append(one)
    return tuple(
        GpuModelRanking(
            model, tuple(sorted(map(_place, found[model].values()), key=lambda one: (one.score, one.numbers)))
        )
        for model in sorted(found, key=str)
    )


def _place(measured: list[ScoredMeasurement]) -> RankedCombination:
    return RankedCombination(tuple(one.number for one in measured), tuple(one.score for one in measured))


def _part(difference: float, of: float) -> float:
    """Return a difference as a part of a score. Of 0 every difference is infinitely much."""
    if difference == 0:
        return 0.0
    return difference / abs(of) if of else inf
