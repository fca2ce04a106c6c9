"""The search of one task: returns candidates, decides how long each is measured, and knows the best.

Its whole state is its trials. So a search created from the trials of an earlier one continues there.
"""

from collections.abc import Iterable
from statistics import fmean
from typing import Protocol

from corral.features.tuner.search.finals import next_repeat, standings_of
from corral.features.tuner.search.front import not_beaten
from corral.features.tuner.search.problem import Problem, SearchStrategy
from corral.features.tuner.search.space import Parameters, row_of
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
        """All candidates that were returned and not stopped with the task, by number."""
        return tuple(self._trials[number] for number in sorted(self._trials) if self._trials[number].counts)

    @property
    def most_trials(self) -> int:
        """The largest number of candidates, by those so far: the not runnable ones do not count as iterations."""
        return self._problem.most_trials(sum(trial.not_runnable for trial in self._trials.values()))

    def ask(self) -> Candidate | Later | Finished:
        """Return the next candidate. It counts as running until `tell` reports its end.

        Once nothing else is to be tried, the best are returned again: the finals.
        """
        trials = self.trials
        running = sum(not trial.ended for trial in trials)
        if running >= self._problem.max_parallel:
            return Later(f"{running:,} candidates are running, as many as may")
        why = "the best were measured again"
        if all(trial.repeats is None for trial in trials):
            parameters, why = self._explore(trials)
            if parameters is not None:
                return self._begun(parameters)
            if running:
                return Later(f"{why}; {running:,} candidates are running")
        again = next_repeat(self._problem, trials)
        if again is not None:
            return self._begun(again.parameters, repeats=again.number)
        return Later(f"{why}; {running:,} candidates are running") if running else Finished(why)

    def _explore(self, trials: tuple[Trial, ...]) -> tuple[Parameters | None, str]:
        """Return a combination that was not tried, or None and the reason."""
        most = self._problem.max_iterations
        left = self._problem.iterations_left(trials)
        if left <= 0:
            return None, f"all {most:,} iterations were used"
        if len(trials) - (most - left) >= most:
            return None, f"{most:,} combinations were not runnable, as many as may be tried"
        return self._chooser.choose(trials), "nothing else is worth trying"

    def _begun(self, parameters: Parameters, repeats: int | None = None) -> Candidate:
        number = max(self._trials, default=0) + 1
        self.tell(Trial(number, parameters, repeats=repeats))
        return Candidate(number, parameters, repeats)

    def next_level(self, number: int) -> LoadLevel | None:
        """Return the next level of this running candidate, None if it is known well enough or unlikely to win."""
        trial = self._trials[number]
        if trial.repeats is not None:
            return self._problem.next_level_in_turn(trial)
        return self._chooser.next_level(trial, self.trials)

    def tell(self, trial: Trial) -> None:
        """Replace the record of a candidate: with one more reading, its end, or its failure."""
        self._trials[trial.number] = trial

    def scores(self, number: int) -> tuple[float, ...] | None:
        """Return one score per objective, lower is better; None if it failed or was not measured at every level."""
        return self._problem.scores(self._trials[number])

    def why_no_score(self, number: int) -> str | None:
        """Return why a candidate that was measured at every level has no score; None if that is no failure."""
        return self._problem.why_no_score(self._trials[number])

    def best(self) -> tuple[Trial, ...]:
        """Return the best candidate on each model of GPU; with several objectives the Pareto front, in which no
        candidate dominates another.
        """
        if len(self._problem.scoring.objectives) == 1:
            found = standings_of(self._problem, self.trials)
            return tuple(self._trials[one.places[0].numbers[0]] for one in found)
        measured: dict[object, list[tuple[tuple[float, ...], Trial]]] = {}
        for trial in self.trials:
            if (scores := self._problem.scores(trial)) is not None:
                measured.setdefault((trial.gpu_model, row_of(trial.parameters)), []).append((scores, trial))
        combinations = list(measured.values())
        means = [tuple(map(fmean, zip(*(scores for scores, _ in one), strict=True))) for one in combinations]
        return tuple(combinations[index][0][1] for index in not_beaten(means))


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
