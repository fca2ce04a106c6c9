"""Tries every combination in the order of the lists; for a grid that is too large, random ones."""

from itertools import islice

from corral.features.tuner.search.problem import GRID_LIMIT, Problem
from corral.features.tuner.search.space import Parameters
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
        can_run = (one for one in self._problem.space.grid() if self._problem.why_not(one) is None)
        return next(islice(can_run, len(trials), None), None)

    def next_level(self, trial: Trial, trials: tuple[Trial, ...]) -> LoadLevel | None:
        return self._problem.next_level_in_turn(trial)
