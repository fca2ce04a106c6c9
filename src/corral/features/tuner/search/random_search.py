"""Tries random combinations, none of them twice."""

from corral.features.tuner.search.problem import Problem
from corral.features.tuner.search.space import Parameters
from corral.features.tuner.search.trial import LoadLevel, Trial


class RandomSearch:
    """The random strategy; it leaves out combinations that cannot run."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def choose(self, trials: tuple[Trial, ...]) -> Parameters | None:
        return self._problem.draw_new(self._problem.random(len(trials) + 1), trials)

    def next_level(self, trial: Trial, trials: tuple[Trial, ...]) -> LoadLevel | None:
        return self._problem.next_level_in_turn(trial)
