"""Tries every combination in the order of the lists; for a grid that is too large, random ones."""

from corral.features.tuner.search.problem import GRID_LIMIT, Problem
from corral.features.tuner.search.space import Parameters, Row, row_of
from corral.features.tuner.search.trial import LoadLevel, Trial


class GridSearch:
    """The grid strategy; it leaves out combinations that cannot run."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def choose(self, trials: tuple[Trial, ...]) -> Parameters | None:
        size = self._problem.space.size
        if size is None or size > GRID_LIMIT:
            number = len(trials) + 1
            return self._problem.draw_new(self._problem.random(number), trials)
        tried = {_key(trial.parameters) for trial in trials}
        untried = (one for one in self._problem.space.grid() if _key(one) not in tried)
        return next((one for one in untried if self._problem.why_not(one) is None), None)

    def next_level(self, trial: Trial, trials: tuple[Trial, ...]) -> LoadLevel | None:
        return self._problem.next_level_in_turn(trial)


def _key(parameters: Parameters) -> Row:
    """Return the values with their kinds: 1 and true are equal, but are not the same combination."""
    row = row_of(parameters)
    return (*row, *(type(value) is bool for value in row))
