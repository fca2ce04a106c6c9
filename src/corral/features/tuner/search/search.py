"""The search of one task: returns candidates, decides how long each is measured, and knows the best.

Its whole state is its trials. So a search created from the trials of an earlier one continues there.
"""

from collections.abc import Iterable
from typing import Protocol

from corral.features.tuner.search.front import not_beaten
from corral.features.tuner.search.problem import Problem, SearchStrategy
from corral.features.tuner.search.space import Parameters
from corral.features.tuner.search.trial import Candidate, Finished, Later, LoadLevel, Trial


class CandidateChooser(Protocol):
    """Chooses candidates. It has no state that matters: the same trials give the same answer."""

    def choose(self, trials: tuple[Trial, ...]) -> Parameters | None:
        """Return the next combination to try, given all trials so far by number; None if nothing more is worth
        trying.
        """

    def next_level(self, trial: Trial, trials: tuple[Trial, ...]) -> LoadLevel | None:
        """Return the next level to measure of a running candidate, None if it is known well enough."""


class Search:
    """The search, which asks a strategy. Not thread-safe."""

    def __init__(self, problem: Problem, trials: Iterable[Trial] = ()) -> None:
        self._problem = problem
        self._trials = {trial.number: trial for trial in trials}
        self._chooser = _chooser(problem)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All candidates that were returned, by number."""
        return tuple(self._trials[number] for number in sorted(self._trials))

    def ask(self) -> Candidate | Later | Finished:
        """Return the next candidate. It counts as running until `tell` reports its end."""
        trials = self.trials
        running = sum(not trial.ended for trial in trials)
        if len(trials) >= self._problem.max_iterations:
            return self._nothing(running, f"all {self._problem.max_iterations:,} iterations were used")
        if running >= self._problem.max_parallel:
            return Later(f"{running:,} candidates are running, as many as may")
        parameters = self._chooser.choose(trials)
        if parameters is None:
            return self._nothing(running, "nothing else is worth trying")
        number = max(self._trials, default=0) + 1
        self.tell(Trial(number, parameters))
        return Candidate(number, parameters)

    def next_level(self, number: int) -> LoadLevel | None:
        """Return the next level of this running candidate, None if it is known well enough or unlikely to win."""
        return self._chooser.next_level(self._trials[number], self.trials)

    def tell(self, trial: Trial) -> None:
        """Replace the record of a candidate: with one more reading, its end, or its failure."""
        self._trials[trial.number] = trial

    def scores(self, number: int) -> tuple[float, ...] | None:
        """Return one score per objective, lower is better; None if it failed or was not measured at every level."""
        return self._problem.scores(self._trials[number])

    def best(self) -> tuple[Trial, ...]:
        """Return the best candidate; with several objectives the Pareto front, in which no candidate dominates
        another.
        """
        scored = [(scores, trial) for trial in self.trials if (scores := self._problem.scores(trial))]
        kept = not_beaten([scores for scores, _ in scored])
        found = [scored[index][1] for index in kept]
        return tuple(found[:1] if len(self._problem.scoring.objectives) == 1 else found)

    @staticmethod
    def _nothing(running: int, why: str) -> Later | Finished:
        return Later(f"{why}; {running:,} candidates are running") if running else Finished(why)


def _chooser(problem: Problem) -> CandidateChooser:
    """Return the strategy. Modules are imported as needed: Optuna takes a second, and other strategies do not need
    it.
    """
    match problem.strategy:
        case SearchStrategy.GRID:
            from corral.features.tuner.search.grid_search import GridSearch

            return GridSearch(problem)
        case SearchStrategy.RANDOM:
            from corral.features.tuner.search.random_search import RandomSearch

            return RandomSearch(problem)
        case SearchStrategy.BAYESIAN:
            from corral.features.tuner.search.tpe_search import TpeSearch

            return TpeSearch(problem)
        case SearchStrategy.RACING:
            from corral.features.tuner.search.racing_search import RacingSearch

            return RacingSearch(problem)
