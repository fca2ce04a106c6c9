"""The problem of a search, read from a task."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from random import Random
from typing import Any

from corral.core.model.errors import Refused, nearest
from corral.features.tuner.model.tuning_spec import BenchmarkSpec
from corral.features.tuner.search.scoring import Scoring, read_scoring
from corral.features.tuner.search.space import Parameters, RangeParameter, Space, read_space
from corral.features.tuner.search.trial import LevelReading, LoadLevel, Trial

GRID_LIMIT = 1_000_000
"""A larger grid is not tried in order; combinations are drawn from it."""

MAX_ITERATIONS = 100
RACING_MAX_ITERATIONS = 400
"""The default for racing: it is larger because most candidates get only a short probe."""

MOST_REPEATS = 5
"""The most experiments that measure one of the best combinations again."""

DRAWS = 4096
"""After this many draws in a row that cannot run or were tried, no other combination is assumed to exist."""


class SearchStrategy(StrEnum):
    """The method of choosing candidates."""

    GRID = "grid_search"
    RANDOM = "random"
    BAYESIAN = "bayesian"
    RACING = "racing"


def _runs(parameters: Parameters) -> str | None:
    return None


@dataclass(frozen=True)
class Problem:
    """A space, the objectives for its points, and the number of points to try.

    Attributes:
        levels: the levels at which each candidate is measured.
        max_iterations: the largest number of candidates, beside as many that are not runnable.
        max_parallel: the largest number of candidates at the same time.
        n_initial_random: the number of candidates that are drawn before results count.
        study_name: the name of the study in Optuna.
        why_not: returns why a combination cannot run, if that is known without trying (memory, precision, heads).
        earlier: trials of earlier tasks of the same model; the best of them that this space contains are tried first.
    """

    space: Space
    scoring: Scoring
    levels: tuple[LoadLevel, ...]
    strategy: SearchStrategy
    max_iterations: int = MAX_ITERATIONS
    max_parallel: int = 1
    n_initial_random: int = 5
    seed: int = 0
    study_name: str | None = None
    why_not: Callable[[Parameters], str | None] = _runs
    earlier: tuple[Trial, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user before the start."""
        size = self.space.size
        if size is None or size <= self.max_iterations:
            return ()
        much = f"there are {size:,} combinations, and max_iterations is {self.max_iterations:,}"
        if self.strategy is SearchStrategy.GRID and size <= GRID_LIMIT:
            return (f"{much}: the first {self.max_iterations:,} are tried, in the order of the lists",)
        return (f"{much}: {self.max_iterations:,} are tried at most, chosen from all of them",)

    @cached_property
    def reasons(self) -> tuple[tuple[Parameters, str], ...] | None:
        """The combinations that cannot run and why, in the order of the lists; None if the space is too large to look
        at each.
        """
        size = self.space.size
        if size is None or size > DRAWS:
            return None
        found = ((one, self.why_not(one)) for one in self.space.grid())
        return tuple((one, why) for one, why in found if why is not None)

    @property
    def may_run(self) -> int | None:
        """The number of combinations that may run, as far as is known; None as for the size of the space."""
        size = self.space.size
        return size if size is None else size - len(self.reasons or ())

    def most_trials(self, not_runnable: int = 0) -> int:
        """Return the largest number of candidates, with repeats and those that were not runnable.

        Racing returns its leaders a second time, to measure them completely.
        """
        each = 2 if self.strategy is SearchStrategy.RACING else 1
        size, most = self.may_run, self.max_iterations + not_runnable
        return (most if size is None else min(most, each * size)) + self.most_repeats

    def iterations_left(self, trials: Iterable[Trial]) -> int:
        """Return the number of further candidates after these. Candidates that are not runnable do not count."""
        return self.max_iterations - sum(not trial.not_runnable for trial in trials)

    @property
    def most_repeats(self) -> int:
        """The largest number of repeats in the finals."""
        size = self.may_run
        return min(MOST_REPEATS, self.max_iterations if size is None else min(size, self.max_iterations))

    def random(self, number: int) -> Random:
        """Return the random generator of the trial with this number: the same in each run of a search."""
        return Random(f"{self.seed}:{number}")

    def draw_new(self, random: Random, trials: tuple[Trial, ...]) -> Parameters | None:
        """Return a random untried combination that can run, None if none exists or none is found."""
        tried = {tuple(trial.parameters.items()) for trial in trials}
        size = self.space.size
        if size is not None and size <= DRAWS:
            every = list(self.space.grid())
            random.shuffle(every)
            drawn: Iterable[Parameters] = every
        else:
            drawn = (self.space.draw(random) for _ in range(DRAWS))
        return next((one for one in drawn if tuple(one.items()) not in tried and self.why_not(one) is None), None)

    def full_readings(self, trial: Trial) -> tuple[LevelReading, ...]:
        """Return the readings of whole levels, without probes; the last one if a level was measured again."""
        by_level = {reading.level: reading for reading in trial.readings}
        return tuple(by_level[level] for level in self.levels if level in by_level)

    def next_level_in_turn(self, trial: Trial) -> LoadLevel | None:
        """Return the first level at which this candidate was not measured yet."""
        measured = {reading.level for reading in trial.readings}
        return next((level for level in self.levels if level not in measured), None)

    def why_no_score(self, trial: Trial) -> str | None:
        """Return why a trial that was measured at every level has no score; None if it has one, or was measured in
        part.
        """
        readings = self.full_readings(trial)
        return None if len(readings) < len(self.levels) else self.scoring.why_no_score(readings)

    def scores(self, trial: Trial) -> tuple[float, ...] | None:
        """Return one score per objective for an ended trial that was measured at every level, None otherwise."""
        readings = self.full_readings(trial)
        if not trial.ended or trial.failure is not None or len(readings) < len(self.levels):
            return None
        return self.scoring.of_readings(readings)


def read_problem(
    task: Mapping[str, Any],
    *,
    max_parallel: int = 1,
    why_not: Callable[[Parameters], str | None] = _runs,
    earlier: tuple[Trial, ...] = (),
) -> Problem:
    """Return the problem of a task, from `parameters`, `parallel_config`, `quant_config`, `optimization`, `slo`,
    `benchmark`.

    Raises:
        Refused: names the field and the accepted values.
    """
    optimization = _known_keys(task.get("optimization") or {})
    given = optimization.get("strategy", SearchStrategy.GRID)
    known = [strategy.value for strategy in SearchStrategy]
    if given not in known:
        where = "optimization.strategy"
        raise Refused(f"{where}: {given!r} is not known; {nearest(str(given), known)}", field=where)
    strategy, space = SearchStrategy(given), read_space(task)
    ranges = [one.name for one in space.parameters if isinstance(one, RangeParameter)]
    if strategy is SearchStrategy.GRID and ranges:
        where = f"parameters.{ranges[0]}"
        raise Refused(f"{where} is a range, which grid_search cannot try; give a list", field=where)
    most = RACING_MAX_ITERATIONS if strategy is SearchStrategy.RACING else MAX_ITERATIONS
    return Problem(
        space,
        read_scoring(task),
        _levels(task.get("benchmark") or {}),
        strategy,
        max_iterations=_count(optimization, "max_iterations", most, least=1),
        max_parallel=max_parallel,
        n_initial_random=_count(optimization, "n_initial_random", 5, least=0),
        seed=_count(optimization, "seed", 0, least=0),
        study_name=optimization.get("study_name"),
        why_not=why_not,
        earlier=earlier,
    )


def _known_keys(optimization: Any) -> Mapping[str, Any]:
    known = (
        *("strategy", "objective", "max_iterations", "timeout_per_iteration", "n_initial_random", "seed"),
        *("study_name", "storage", "slo_score"),
    )
    if not isinstance(optimization, Mapping):
        raise Refused(f"optimization must have {', '.join(known)}, and is {optimization!r}", field="optimization")
    for key in optimization:
        if key not in known:
            where = f"optimization.{key}"
            raise Refused(f"{where} is not known; {nearest(str(key), known)}", field=where)
    return optimization


def _count(given: Mapping[str, Any], key: str, default: int, *, least: int) -> int:
    value = given.get(key)
    if value is None:
        return default
    if type(value) is not int or value < least:
        where = f"optimization.{key}"
        raise Refused(f"{where} is {value!r}; it must be an integer of at least {least}", field=where)
    return value


def _levels(benchmark: Mapping[str, Any]) -> tuple[LoadLevel, ...]:
    usual = BenchmarkSpec()
    scenarios = benchmark.get("traffic_scenarios") or list(usual.traffic_scenarios)
    concurrencies = benchmark.get("num_concurrency") or list(usual.num_concurrency)
    minutes = benchmark.get("max_time_per_iteration", usual.max_time_per_iteration)
    if not isinstance(scenarios, list) or not all(isinstance(one, str) for one in scenarios):
        where = "benchmark.traffic_scenarios"
        raise Refused(f'{where} is {scenarios!r}; it must be a list such as ["D(100,100)"]', field=where)
    if not isinstance(concurrencies, list) or not all(type(one) is int and one > 0 for one in concurrencies):
        where = "benchmark.num_concurrency"
        raise Refused(f"{where} is {concurrencies!r}; it must be a list of integers above 0", field=where)
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes < float("inf"):
        where = "benchmark.max_time_per_iteration"
        raise Refused(f"{where} is {minutes!r}; it must be minutes above 0", field=where)
    measured = BenchmarkSpec(traffic_scenarios=tuple(scenarios), num_concurrency=tuple(concurrencies)).levels
    return tuple(LoadLevel(scenario, concurrency, float(minutes)) for scenario, concurrency in measured)
