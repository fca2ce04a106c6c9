"""Finds combinations that may be tried next: untried ones that can run as far as is known."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from math import prod

import numpy as np

from corral.features.tuner.search.problem import Problem
from corral.features.tuner.search.space import Parameters, Row, Value, row_of
from corral.features.tuner.search.surrogate import Encoding
from corral.features.tuner.search.trial import Trial

LARGEST = 400
"""Larger spaces are not listed completely: half as many combinations are drawn, besides those near the best."""

SPREAD_DRAWS = 200


class CandidatePool:
    """Finds untried combinations. It remembers only which combinations cannot run."""

    def __init__(self, problem: Problem, encoding: Encoding) -> None:
        self._problem, self._encoding = problem, encoding
        self._can_run: dict[Row, bool] = {}

    def untried(self, trials: tuple[Trial, ...], best: Sequence[Parameters]) -> list[Parameters]:
        """Return all untried combinations; for a large space some random ones and those near the best."""
        steps = self._problem.space.steps
        rows: Iterable[Row] = itertools.product(*steps)
        if prod(map(len, steps)) > LARGEST:
            random = self._problem.random(len(trials) + 1)
            drawn = (tuple(random.choice(values) for values in steps) for _ in range(LARGEST // 2))
            rows = itertools.chain(drawn, *(self._like(row_of(one)) for one in best))
        tried = {row_of(trial.parameters) for trial in trials}
        named = (self._problem.space.named(row) for row in dict.fromkeys(rows) if row not in tried)
        return [one for one in named if self.can_run(one)]

    def unlike(self, trials: tuple[Trial, ...]) -> Parameters | None:
        """Return the random combination that differs most from the tried ones, None if nothing is left."""
        random = self._problem.random(len(trials) + 1)
        tried = {row_of(trial.parameters) for trial in trials}
        drawn = [self._problem.space.draw(random) for _ in range(SPREAD_DRAWS)]
        drawn = [one for one in drawn if row_of(one) not in tried and self.can_run(one)]
        if not drawn or not trials:
            return drawn[0] if drawn else self._problem.draw_new(random, trials)
        others = self._encoding.points([trial.parameters for trial in trials])
        apart = self._encoding.points(drawn).distances(others, [1.0] * len(others.ordered)).min(axis=1)
        return drawn[int(np.argmax(apart))]

    def beside(self, trials: tuple[Trial, ...], best: Sequence[Parameters]) -> list[Parameters]:
        """Return untried combinations that differ from one of the best in one parameter, by one step if it is
        ordered.
        """
        tried = {row_of(trial.parameters) for trial in trials}
        rows = dict.fromkeys(row for one in best for row in self._steps_from(row_of(one)))
        named = (self._problem.space.named(row) for row in rows if row not in tried)
        return [one for one in named if self.can_run(one)]

    def can_run(self, parameters: Parameters) -> bool:
        row = row_of(parameters)
        if row not in self._can_run:
            self._can_run[row] = self._problem.why_not(parameters) is None
        return self._can_run[row]

    def _steps_from(self, row: Row) -> Iterator[Row]:
        for index, (parameter, values) in enumerate(
            zip(self._problem.space.parameters, self._problem.space.steps, strict=True)
        ):
            place = _nearest_place(values, row[index])
            for value in values[max(place - 1, 0) : place + 2] if parameter.ordered else values:
                yield (*row[:index], value, *row[index + 1 :])

    def _like(self, row: Row) -> Iterator[Row]:
        """Yield combinations that differ in one parameter, or in two of them by one step each."""
        steps = self._problem.space.steps
        places = [_nearest_place(values, value) for values, value in zip(steps, row, strict=True)]
        around = [values[max(place - 1, 0) : place + 2] for values, place in zip(steps, places, strict=True)]
        for index, values in enumerate(steps):
            for value in values:
                yield (*row[:index], value, *row[index + 1 :])
        for one, other in itertools.combinations(range(len(row)), 2):
            for a, b in itertools.product(around[one], around[other]):
                yield (*row[:one], a, *row[one + 1 : other], b, *row[other + 1 :])


def _nearest_place(values: Row, value: Value) -> int:
    """Return the index of the value, or of the nearest step for a value of a range."""
    if value in values:
        return values.index(value)
    return min(range(len(values)), key=lambda place: abs(float(values[place]) - float(value)))
