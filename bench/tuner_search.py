"""How soon each strategy of the tuner's search is within 2 % of the optimum, on servers whose optimum is known.

The clock is set by hand: a deployment takes `DEPLOY_MINUTES`, a load level its own minutes, and each strategy has as
many minutes as `CANDIDATES` whole measurements take. Racing, which probes most of its candidates, may try more of them.
Its figures are those of `held-out` and `later`. `python -m bench.tuner_search dev` tries the servers that the search
was developed on. Names of strategies behind it choose some, also of those that `OF_THE_TABLE` leaves out.
"""

import math
import multiprocessing
import os
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small

import optuna

from bench.cliff_servers import CLIFFS
from bench.held_out_servers import HELD_OUT
from bench.later_held_out_servers import LATER_HELD_OUT
from bench.stand_in_servers import (
    BETWEEN_DEPLOYMENTS,
    DEPLOY_MINUTES,
    DEVELOPED_ON,
    FAILED_MINUTES,
    LEVEL_MINUTES,
    StandInServer,
)
from corral.features.tuner.search.problem import RACING_MAX_ITERATIONS
from corral.features.tuner.search.scoring import failure_score
from corral.features.tuner.search.search import Search
from corral.features.tuner.search.space import Parameters
from corral.features.tuner.search.trial import Candidate, FailedStep, LevelReading, Trial, TrialFailure

SEEDS = 10
CANDIDATES = 100
WITHIN = 0.02
SETS = {"dev": (*DEVELOPED_ON, *CLIFFS), "held-out": HELD_OUT, "later": LATER_HELD_OUT}
SERVERS = {server.name: server for servers in SETS.values() for server in servers}
FAILED = TrialFailure(FailedStep.DEPLOY, timeout_ratio=0.1)


@dataclass(frozen=True)
class Run:
    """When the best one known was first within 2 % of the optimum (infinite: never), and how far off the last was."""

    reached_minutes: float
    minutes: float
    off: float
    candidates: int


class Clock:
    """Counts benchmark minutes, and sees how good the best known candidate is."""

    def __init__(self, server: StandInServer, seed: int) -> None:
        self.server, self.noise = server, random.Random(f"noise {seed}")
        self.budget = CANDIDATES * (DEPLOY_MINUTES + len(server.task["concurrency"]) * LEVEL_MINUTES)
        self.minutes, self.reached, self.off = 0.0, math.inf, math.inf

    @property
    def over(self) -> bool:
        return self.minutes >= self.budget

    def spend(self, minutes: float) -> None:
        self.minutes += minutes

    def best_is(self, parameters: Parameters) -> None:
        self.off = self.server.off(parameters)
        if self.off <= WITHIN and not self.over:
            self.reached = min(self.reached, self.minutes)


def run_search(server: StandInServer, *, strategy: str, seed: int) -> Run:
    """One of our own strategies."""
    clock = Clock(server, seed)
    search = Search(server.problem(strategy, seed, RACING_MAX_ITERATIONS if strategy == "racing" else CANDIDATES))
    while not clock.over and isinstance(found := search.ask(), Candidate):
        trial = Trial(found.number, found.parameters, repeats=found.repeats)
        deployment = clock.noise.gauss(0, BETWEEN_DEPLOYMENTS)
        clock.spend(DEPLOY_MINUTES)
        while level := search.next_level(trial.number):
            metrics = server.measure(trial.parameters, level, deployment, clock.noise)
            if metrics is None:
                clock.spend(FAILED_MINUTES - DEPLOY_MINUTES)
                trial = replace(trial, failure=FAILED)
                break
            clock.spend(level.minutes)
            trial = replace(trial, readings=(*trial.readings, LevelReading(level, metrics)))
            search.tell(trial)
        search.tell(replace(trial, ended=True))
        if best := search.best():
            clock.best_is(best[0].parameters)
    return Run(clock.reached, clock.minutes, clock.off, len(search.trials))


def run_optuna(
    sampler: Callable[[int], optuna.samplers.BaseSampler], ordered: bool, server: StandInServer, seed: int
) -> Run:
    """Optuna itself, each candidate measured in whole. What failed counts as the reference has it."""
    clock = Clock(server, seed)
    problem = server.problem("random", seed, CANDIDATES)
    study = optuna.create_study(sampler=sampler(seed))
    known: list[tuple[float, Parameters]] = []
    asked = 0
    while not clock.over and asked < 3 * CANDIDATES:
        trial = study.ask()
        values = []
        for parameter, steps in zip(problem.space.parameters, problem.space.steps, strict=True):
            if ordered and parameter.ordered:
                values.append(steps[trial.suggest_int(parameter.name, 0, len(steps) - 1)])
            else:
                values.append(steps[trial.suggest_categorical(parameter.name, list(range(len(steps))))])
        parameters = problem.space.named(values)
        asked += 1
        if server.why_not(parameters) is not None:  # refused at once
            study.tell(trial, failure_score(FAILED))
            continue
        deployment = clock.noise.gauss(0, BETWEEN_DEPLOYMENTS)
        metrics = [server.measure(parameters, level, deployment, clock.noise) for level in problem.levels]
        readings = [LevelReading(level, one) for level, one in zip(problem.levels, metrics, strict=True) if one]
        if len(readings) < len(problem.levels):
            clock.spend(FAILED_MINUTES)
        else:
            clock.spend(DEPLOY_MINUTES + LEVEL_MINUTES * len(readings))
        scores = problem.scoring.of_readings(readings) if len(readings) == len(problem.levels) else None
        study.tell(trial, scores[0] if scores else failure_score(FAILED))
        if scores:
            known.append((scores[0], parameters))
            clock.best_is(min(known, key=lambda one: one[0])[1])
    return Run(clock.reached, clock.minutes, clock.off, asked)


def _five_random(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(n_startup_trials=5, multivariate=False, constant_liar=False, seed=seed)


def _defaults(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(seed=seed)


OPTUNA = "Optuna, "
STRATEGIES: dict[str, Callable[..., Run]] = {
    "racing": partial(run_search, strategy="racing"),
    OPTUNA + "5 at first": partial(run_optuna, _five_random, True),
    OPTUNA + "5 at first, as choices": partial(run_optuna, _five_random, False),
    OPTUNA + "defaults": partial(run_optuna, _defaults, True),
    OPTUNA + "defaults, as choices": partial(run_optuna, _defaults, False),
    "bayesian": partial(run_search, strategy="bayesian"),
    "grid_search": partial(run_search, strategy="grid_search"),
    "random": partial(run_search, strategy="random"),
}

OF_THE_TABLE = ["racing", OPTUNA + "5 at first", OPTUNA + "defaults", "grid_search", "random"]


def one_run(job: tuple[str, str, int]) -> Run:
    name, strategy, seed = job
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return STRATEGIES[strategy](SERVERS[name], seed=seed)


def table(servers: tuple[StandInServer, ...], strategies: list[str], seeds: int) -> Iterator[str]:
    for server in servers:
        # Worked out once, before processes are forked that need it.
        sizes = f"{len(server.true_scores):,} of {math.prod(map(len, server.task['parameters'].values())):,} run"
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
            yield f"{server.name} ({sizes})"
            reached = {}
            for strategy in strategies:
                jobs = [(server.name, strategy, seed) for seed in range(seeds)]
                runs = list(pool.map(one_run, jobs))
                budget = Clock(server, 0).budget
                times = [min(run.reached_minutes, budget) for run in runs]
                reached[strategy] = median(times)
                never = sum(math.isinf(run.reached_minutes) for run in runs)
                off = [run.off for run in runs]
                yield (
                    f"  {strategy:34} within 2 %: median {median(times):4.0f}, worst {max(times):4.0f} min, "
                    f"never in {never} of {seeds}; "
                    f"at the end {median(off):6.1%} off, worst {max(off):6.1%}, "
                    f"after {median(run.minutes for run in runs):4.0f} min, "
                    f"{median(run.candidates for run in runs):.0f} candidates"
                )
        others = [reached[name] for name in strategies if name.startswith(OPTUNA)]
        if others and "racing" in reached:
            yield f"  racing takes {reached['racing'] / min(others):.0%} of the minutes of the better of Optuna's"


def main() -> None:
    for chosen in ("held-out", "later"):
        show(chosen, OF_THE_TABLE)


def show(chosen: str, strategies: list[str]) -> None:
    print(f"{chosen}:", flush=True)
    for line in table(SETS[chosen], strategies, SEEDS):
        print(line, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        show(sys.argv[1], sys.argv[2:] or OF_THE_TABLE)
    else:
        main()
