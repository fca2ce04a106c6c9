"""The finals of a search: the best combinations are measured again, which shows how far repeats differ. Pure.

The best is measured a second time, then each combination that does not differ from it by more than repeats do.
"""

from collections import Counter
from collections.abc import Iterator

from corral.features.tuner.search.problem import Problem
from corral.features.tuner.search.space import row_of
from corral.features.tuner.search.standing import GpuModelRanking, ScoredMeasurement, standings
from corral.features.tuner.search.trial import Trial

MEASURED = 2
"""A finalist is measured this often."""


def standings_of(problem: Problem, trials: tuple[Trial, ...]) -> tuple[GpuModelRanking, ...]:
    """Return the standings of a search's trials, by the first objective."""
    return standings(
        ScoredMeasurement(trial.number, row_of(trial.parameters), scores[0], trial.gpu_model)
        for trial in trials
        if (scores := problem.scores(trial)) is not None
    )


def next_repeat(problem: Problem, trials: tuple[Trial, ...]) -> Trial | None:
    """Return the next trial to measure again, None if there is none.

    A repeat that runs or has failed counts as one, so the finals end.
    """
    repeats = Counter(trial.repeats for trial in trials if trial.repeats is not None)
    if repeats.total() >= problem.most_repeats:
        return None
    by_number = {trial.number: trial for trial in trials}
    firsts = (numbers[0] for numbers in _finalists(standings_of(problem, trials)) if len(numbers) < MEASURED)
    return next((by_number[first] for first in firsts if not repeats[first]), None)


def _finalists(found: tuple[GpuModelRanking, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the experiments of each finalist: the best on each model of GPU, then the others."""
    for standing in found:
        yield standing.places[0].numbers
    for standing in found:
        for place in standing.finalists[1:]:
            yield place.numbers
