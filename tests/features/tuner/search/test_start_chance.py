"""What failed teaches what will fail: beside it, and wherever the same two values meet."""

from itertools import product

import numpy as np

from corral.features.tuner.search.problem import read_problem
from corral.features.tuner.search.space import Parameters
from corral.features.tuner.search.start_chance import StartChance
from corral.features.tuner.search.surrogate import Encoding
from corral.features.tuner.search.trial import FailedStep, LevelReading, Trial, TrialFailure

PROBLEM = read_problem(
    {
        "parameters": {"share": [1, 2, 3, 4, 5, 6, 7, 8], "kernel": ["a", "b", "c"], "dtype": ["x", "y"]},
        "optimization": {"strategy": "racing", "objective": "minimize_ttft"},
        "benchmark": {"num_concurrency": [1], "max_time_per_iteration": 2},
    }
)
ENCODING = Encoding(PROBLEM)


def tried(number: int, parameters: Parameters, *, runs: bool) -> Trial:
    if not runs:
        return Trial(number, parameters, ended=True, failure=TrialFailure(FailedStep.MEMORY))
    reading = LevelReading(PROBLEM.levels[0], {"mean_ttft": 1.0})
    return Trial(number, parameters, (reading,), ended=True)


def chance(trials: list[Trial], *several: Parameters) -> list[float]:
    return [float(one) for one in StartChance(ENCODING).of_candidates(tuple(trials), ENCODING.points(several))]


def combination(share: int, kernel: str = "a", dtype: str = "x") -> Parameters:
    return {"share": share, "kernel": kernel, "dtype": dtype}


def test_without_failures_all_runs() -> None:
    assert chance([tried(1, combination(1), runs=True)], combination(8, "c", "y")) == [1.0]


def test_the_nearer_a_limit_that_was_seen_the_less_likely() -> None:
    seen = [tried(share, combination(share), runs=share < 6) for share in (1, 3, 5, 7, 8)]
    within, at_it, beyond = chance(seen, *(combination(share) for share in (4, 6, 8)))
    assert within > 0.9
    assert 0.1 < at_it < 0.9
    assert beyond < 0.1


def test_two_values_that_never_ran_together_are_shunned_wherever_they_meet() -> None:
    rows = [combination(share, kernel, dtype) for share, kernel, dtype in product((1, 3, 6, 8), "abc", "xy")]
    seen = [tried(n, row, runs=(row["kernel"], row["dtype"]) != ("c", "y")) for n, row in enumerate(rows, 1)]
    found = np.array(chance(seen, *(combination(share, "c", "y") for share in (2, 4, 5, 7))))
    assert (found <= 3 / 5).all()
    assert min(chance(seen, *(combination(share, "c", "x") for share in (2, 4, 5, 7)))) > 0.5
