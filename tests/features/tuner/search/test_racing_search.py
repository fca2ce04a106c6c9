"""Racing finds the best with few minutes of measuring: probes for most, and all loads for what may win."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from corral.features.tuner.search.problem import Problem, read_problem
from corral.features.tuner.search.search import Search
from corral.features.tuner.search.space import Parameters
from corral.features.tuner.search.trial import Candidate, FailedStep, LevelReading, LoadLevel, Trial, TrialFailure

TASK: dict[str, Any] = {
    "parameters": {
        "tp": [1, 2, 4, 8],
        "batch": [8, 16, 32, 64, 128, 256],
        "share": [0.7, 0.8, 0.9, 0.95],
        "dtype": ["auto", "fp8"],
    },
    "optimization": {"strategy": "racing", "objective": "maximize_throughput", "max_iterations": 30},
    "benchmark": {"num_concurrency": [4, 16, 64], "max_time_per_iteration": 2},
}
MEMORY = TrialFailure(FailedStep.MEMORY, timeout_ratio=0.1)


def serve(parameters: Parameters, level: LoadLevel) -> dict[str, float] | None:
    """Larger batches help until the step grows; a share above 0.9 is too much."""
    tp, batch, share = (float(parameters[name]) for name in ("tp", "batch", "share"))
    if share > 0.9:
        return None
    running = (level.concurrency**-4 + batch**-4) ** -0.25
    step = 0.01 / tp**0.8 + 0.0012 * tp + 0.0001 * running + 0.00002 * batch
    rate = running / step / tp * (1.1 if parameters["dtype"] == "fp8" else 1.0) * (0.6 + 0.4 * share)
    return {"mean_total_throughput_per_gpu": rate, "mean_tpot": step, "mean_ttft": 0.05 * level.concurrency / running}


def race(problem: Problem) -> tuple[Search, float]:
    """The search at its end, and the minutes that were measured."""
    search, minutes = Search(problem), 0.0
    while isinstance(found := search.ask(), Candidate):
        trial = Trial(found.number, found.parameters, repeats=found.repeats)
        while level := search.next_level(trial.number):
            metrics = serve(trial.parameters, level)
            if metrics is None:
                trial = replace(trial, failure=MEMORY)
                break
            minutes += level.minutes
            trial = replace(trial, readings=(*trial.readings, LevelReading(level, metrics)))
            search.tell(trial)
        search.tell(replace(trial, ended=True))
    return search, minutes


def rate(parameters: Parameters, problem: Problem) -> float:
    found = [serve(parameters, level) for level in problem.levels]
    return sum(metrics["mean_total_throughput_per_gpu"] for metrics in found if metrics)


def test_it_ends_near_the_optimum_having_measured_few_in_whole() -> None:
    problem = read_problem(TASK)
    search, minutes = race(problem)
    most = max(rate(parameters, problem) for parameters in problem.space.grid())
    assert rate(search.best()[0].parameters, problem) >= 0.98 * most
    whole = 2.0 * len(problem.levels)
    assert minutes < 0.4 * whole * len(search.trials)


def test_what_wins_was_measured_in_part_before_and_had_no_score_then() -> None:
    search, _ = race(read_problem(TASK))
    (best,) = search.best()
    probe, *_ = (trial for trial in search.trials if trial.parameters == best.parameters)
    assert probe.number < best.number
    assert search.scores(probe.number) is None


def test_it_learns_what_does_not_start() -> None:
    search, _ = race(read_problem(TASK))
    failed = [trial for trial in search.trials if trial.failure]
    assert len(failed) < len(search.trials) / 4


def test_what_failed_is_not_tried_again() -> None:
    search, _ = race(read_problem({**TASK, "optimization": {**TASK["optimization"], "max_iterations": 60}}))
    failed = [tuple(trial.parameters.values()) for trial in search.trials if trial.failure]
    tried = [tuple(trial.parameters.values()) for trial in search.trials]
    assert failed
    assert all(tried.count(row) == 1 for row in failed)


def test_a_seed_says_what_is_tried_also_by_a_search_made_anew_at_any_moment() -> None:
    problem = read_problem(TASK)
    search, _ = race(problem)
    assert race(problem)[0].trials == search.trials
    for number in range(1, len(search.trials), 7):
        again = Search(problem, search.trials[:number]).ask()
        assert isinstance(again, Candidate)
        assert again.parameters == search.trials[number].parameters


@pytest.mark.parametrize("iterations", [1, 2, 3, 9])
def test_however_few_candidates_there_may_be_one_is_measured_in_whole(iterations: int) -> None:
    task = {**TASK, "optimization": {**TASK["optimization"], "max_iterations": iterations}}
    task["parameters"] = {**TASK["parameters"], "share": [0.8, 0.9]}
    search, _ = race(read_problem(task))
    assert search.best()
    assert sum(trial.repeats is None for trial in search.trials) <= iterations


def test_it_begins_with_the_best_of_earlier_tasks_that_it_may_try() -> None:
    problem = read_problem(TASK)
    earlier, _ = race(problem)
    best = earlier.best()[0]
    elsewhere = Trial(1, {**best.parameters, "tp": 16}, best.readings, ended=True)
    again = Search(read_problem(TASK, earlier=(elsewhere, *earlier.trials)))
    first = again.ask()
    assert isinstance(first, Candidate)
    assert first.parameters == best.parameters


def test_with_several_objectives_it_ends_with_a_front() -> None:
    task = {**TASK, "optimization": {**TASK["optimization"], "objective": ["maximize_throughput", "minimize_tpot"]}}
    search, _ = race(read_problem(task))
    scores = [search.scores(trial.number) for trial in search.best()]
    assert len(scores) >= 2
    assert sorted(score[0] for score in scores if score) == [score[0] for score in scores if score]
    assert sorted((score[1] for score in scores if score), reverse=True) == [score[1] for score in scores if score]


def test_ranges_are_searched_too() -> None:
    ranged = {"batch": {"type": "integer", "low": 8, "high": 256, "log": True}, "tp": [1, 2, 4, 8]}
    ranged["share"] = {"type": "continuous", "low": 0.7, "high": 0.9}
    problem = read_problem({**TASK, "parameters": {**ranged, "dtype": ["auto", "fp8"]}})
    search, _ = race(problem)
    most = max(rate(problem.space.named(row), problem) for row in product(*problem.space.steps))
    assert rate(search.best()[0].parameters, problem) >= 0.95 * most


@pytest.mark.parametrize("values", [[3], [1, 2, 4]])
def test_a_space_with_fewer_candidates_than_are_spread_at_first_has_a_winner_too(values: list[int]) -> None:
    optimization = {"strategy": "racing", "objective": "minimize_latency"}
    levels = {"num_concurrency": [1, 4], "max_time_per_iteration": 2}
    task = {"parameters": {"batch": values}, "optimization": optimization, "benchmark": levels}
    search = Search(read_problem(task))
    while isinstance(candidate := search.ask(), Candidate):
        trial = Trial(candidate.number, candidate.parameters, repeats=candidate.repeats)
        while (level := search.next_level(candidate.number)) is not None:
            latency_s = 10.0 / int(candidate.parameters["batch"]) * level.concurrency
            reading = LevelReading(level, {"mean_e2e_latency": latency_s})
            trial = replace(trial, readings=(*trial.readings, reading))
            search.tell(trial)
        search.tell(replace(trial, ended=True))
    assert [trial.parameters for trial in search.best()] == [{"batch": max(values)}]
