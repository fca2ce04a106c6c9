"""A search hands out candidates, and goes on from its trials alone."""

import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.features.tuner.measuring.benchmark import loads_of
from corral.features.tuner.model.tuning_spec import BenchmarkSpec
from corral.features.tuner.search.problem import SearchStrategy, read_problem
from corral.features.tuner.search.search import Search
from corral.features.tuner.search.space import Parameters
from corral.features.tuner.search.trial import Candidate, FailedStep, Finished, Later, LevelReading, Trial, TrialFailure
from corral.wire import from_plain

EVERY = list(SearchStrategy)


def task(strategy: str, **optimization: object) -> dict[str, Any]:
    return {
        "parameters": {"tp": [1, 2, 4], "batch": [8, 16, 32, 64], "chunked": [True, False]},
        "optimization": {"strategy": strategy, "objective": "minimize_ttft", "max_iterations": 12, **optimization},
        "benchmark": {"traffic_scenarios": ["D(100,100)"], "num_concurrency": [1, 8], "max_time_per_iteration": 2},
    }


def ttft(parameters: Parameters, concurrency: int) -> float:
    """A candidate with tp 2 and batch 32 is the best one."""
    tp, batch = parameters["tp"], parameters["batch"]
    assert isinstance(tp, int)
    assert isinstance(batch, int)
    return (abs(tp - 2) + abs(batch - 32) / 8 + bool(parameters["chunked"]) + 1) * math.sqrt(concurrency)


def measure(search: Search, candidate: Candidate) -> None:
    """Does what a tuner does with a candidate."""
    trial = Trial(candidate.number, candidate.parameters, repeats=candidate.repeats)
    while level := search.next_level(candidate.number):
        reading = LevelReading(level, {"mean_ttft": ttft(candidate.parameters, level.concurrency)})
        trial = replace(trial, readings=(*trial.readings, reading))
        search.tell(trial)
    search.tell(replace(trial, ended=True))


def run(search: Search, most: int = 1000) -> Search:
    for _ in range(most):
        found = search.ask()
        if not isinstance(found, Candidate):
            break
        measure(search, found)
    return search


@pytest.mark.parametrize("strategy", EVERY)
@pytest.mark.parametrize("stopped", [{1}, {3, 4}, {1, 13}])
def test_candidates_that_were_stopped_with_their_task_are_tried_again(strategy: str, stopped: set[int]) -> None:
    """The others are those of a search that nobody stopped: also a repeat, which is number 13 of these."""
    problem = read_problem(task(strategy))
    whole, search = run(Search(problem)), Search(problem)
    while isinstance(found := search.ask(), Candidate):
        if found.number in stopped:
            failure = TrialFailure(FailedStep.STOPPED)
            search.tell(Trial(found.number, found.parameters, ended=True, failure=failure, repeats=found.repeats))
        else:
            measure(search, found)
    tried = [(one.parameters, one.repeats is None) for one in search.trials]
    assert len(search.trials) >= 12
    if strategy != SearchStrategy.RACING:
        assert tried == [(one.parameters, one.repeats is None) for one in whole.trials]
    assert not {one.number for one in search.trials} & stopped


def test_a_flag_with_the_value_1_is_tried_beside_a_bare_one() -> None:
    search = Search(read_problem({**task(SearchStrategy.GRID, max_iterations=2), "parameters": {"flag": [1, True]}}))
    while isinstance(found := search.ask(), Candidate):
        search.tell(Trial(found.number, found.parameters, ended=True, failure=TrialFailure(FailedStep.OTHER)))
    assert [repr(one.parameters["flag"]) for one in search.trials] == ["1", "True"]


def test_a_candidate_fails_by_a_hard_limit_only_once_every_level_was_measured() -> None:
    slo = {"ttft": {"threshold": 1e-6, "hard_fail": True}}
    problem = read_problem({**task("racing"), "slo": slo})
    broken = tuple(LevelReading(level, {"mean_ttft": 1.0}) for level in problem.levels)
    probed = tuple(replace(one, level=replace(one.level, minutes=0.3)) for one in broken)
    for readings in ((), probed, (*probed, broken[0])):
        assert problem.why_no_score(Trial(1, {}, readings, ended=True)) is None
    assert (problem.why_no_score(Trial(1, {}, broken, ended=True)) or "").startswith("slo_violation")


@pytest.mark.parametrize("strategy", EVERY)
def test_nothing_is_measured_in_whole_twice_and_the_best_that_was_measured_is_known(strategy: str) -> None:
    search = run(Search(read_problem(task(strategy, max_iterations=24))))
    whole = [
        tuple(trial.parameters.values())
        for trial in search.trials
        if trial.repeats is None and search.scores(trial.number) is not None
    ]
    assert len(whole) == len(set(whole))
    assert search.best()[0].parameters == {"tp": 2, "batch": 32, "chunked": False}
    assert isinstance(search.ask(), Finished)


@pytest.mark.parametrize("strategy", EVERY)
def test_a_search_made_anew_of_its_trials_goes_on_as_it_would_have(strategy: str) -> None:
    problem = read_problem(task(strategy, seed=7), max_parallel=2)
    search = run(Search(problem), most=7)
    assert isinstance(search.ask(), Candidate)  # one is running
    again = Search(problem, reversed(search.trials))
    assert again.ask() == search.ask()
    for one in (search, again):
        for trial in one.trials[-2:]:
            measure(one, Candidate(trial.number, trial.parameters, trial.repeats))
        run(one)
    assert again.trials == search.trials


@pytest.mark.parametrize("strategy", ["random", "bayesian"])
def test_another_seed_tries_other_candidates(strategy: str) -> None:
    one, other = (run(Search(read_problem(task(strategy, seed=seed)))).trials for seed in (0, 1))
    assert one != other


@pytest.mark.parametrize("strategy", EVERY)
def test_what_is_known_not_to_run_is_never_handed_out(strategy: str) -> None:
    def why_not(parameters: Parameters) -> str | None:
        return "32 heads are not divisible by 3" if parameters["tp"] == 4 else None

    search = run(Search(read_problem(task(strategy, max_iterations=24), why_not=why_not)))
    assert {trial.parameters["tp"] for trial in search.trials} == {1, 2}


@pytest.mark.parametrize("strategy", EVERY)
def test_as_many_candidates_run_at_once_as_may(strategy: str) -> None:
    search = Search(read_problem(task(strategy), max_parallel=3))
    found = [search.ask() for _ in range(4)]
    assert [type(one) for one in found] == [Candidate] * 3 + [Later]
    assert isinstance(found[0], Candidate)
    measure(search, found[0])
    assert isinstance(search.ask(), Candidate)


@pytest.mark.parametrize("strategy", EVERY)
def test_a_search_goes_on_when_everything_fails_and_then_has_no_best(strategy: str) -> None:
    search = Search(read_problem(task(strategy)))
    while isinstance(found := search.ask(), Candidate):
        search.tell(Trial(found.number, found.parameters, ended=True, failure=TrialFailure(FailedStep.MEMORY)))
    assert isinstance(found, Finished)
    assert search.trials
    assert search.best() == ()


@pytest.mark.parametrize(("strategy", "most"), [("grid_search", 4), ("random", 4), ("bayesian", 4), ("racing", 8)])
def test_no_more_is_handed_out_than_was_said(strategy: str, most: int) -> None:
    """A race hands out its leaders again, and every search its best in the finals."""
    few = {"tp": [1, 2], "batch": [8, 16], "chunked": [True]}
    problem = read_problem({**task(strategy, max_iterations=100), "parameters": few})
    trials = run(Search(problem)).trials
    assert problem.most_trials() == most + 4
    assert sum(trial.repeats is None for trial in trials) in (range(5, 9) if strategy == "racing" else [4])
    assert 1 <= sum(trial.repeats is not None for trial in trials) <= 4
    assert read_problem(task(strategy, max_iterations=3)).most_trials() == 3 + 3


@pytest.mark.parametrize("strategy", EVERY)
def test_a_candidate_that_is_not_runnable_is_no_iteration(strategy: str) -> None:
    given = task(strategy, max_iterations=9)
    search = Search(read_problem({**given, "parameters": {**given["parameters"], "tp": [4, 1, 2]}}))
    while isinstance(found := search.ask(), Candidate):
        if found.parameters["tp"] == 4:
            failure = TrialFailure(FailedStep.NOT_RUNNABLE)
            search.tell(Trial(found.number, found.parameters, ended=True, failure=failure))
        else:
            measure(search, found)
    explored = [trial for trial in search.trials if trial.repeats is None]
    assert any(trial.not_runnable for trial in explored)
    assert sum(not trial.not_runnable for trial in explored) == 9
    assert len(search.trials) <= search.most_trials


def test_a_search_ends_when_as_many_were_not_runnable_as_may_be_tried() -> None:
    search = Search(read_problem(task("random", max_iterations=5)))
    while isinstance(found := search.ask(), Candidate):
        failure = TrialFailure(FailedStep.NOT_RUNNABLE)
        search.tell(Trial(found.number, found.parameters, ended=True, failure=failure))
    assert found == Finished("5 combinations were not runnable, as many as may be tried")


def test_the_grid_is_cut_to_the_first_iterations_and_says_so() -> None:
    problem = read_problem(task("grid_search", max_iterations=3))
    tried = [tuple(trial.parameters.values()) for trial in run(Search(problem)).trials if trial.repeats is None]
    assert tried == [(1, 8, True), (1, 8, False), (1, 16, True)]
    assert problem.notes == (
        "there are 24 combinations, and max_iterations is 3: the first 3 are tried, in the order of the lists",
    )


def test_of_a_thousand_million_combinations_some_are_drawn_and_it_is_said() -> None:
    huge = {**task("grid_search"), "parameters": {f"p{n}": list(range(10)) for n in range(9)}}
    problem = read_problem(huge)
    assert "1,000,000,000 combinations" in problem.notes[0]
    search = Search(problem)
    asked = [search.ask()]
    assert isinstance(asked[0], Candidate)
    assert any(asked[0].parameters.values())


def test_with_several_objectives_the_best_are_the_pareto_front() -> None:
    problem = read_problem(task("grid_search", objective=["minimize_ttft", "minimize_tpot"], max_iterations=24))
    search = Search(problem)
    while isinstance(found := search.ask(), Candidate):
        batch = found.parameters["batch"]
        assert isinstance(batch, int)
        metrics = {"mean_ttft": 1 / batch, "mean_tpot": float(batch) + bool(found.parameters["chunked"])}
        readings = tuple(LevelReading(level, metrics) for level in problem.levels)
        search.tell(Trial(found.number, found.parameters, readings, ended=True, repeats=found.repeats))
    assert [trial.parameters["batch"] for trial in search.best()] == [64, 32, 16, 8]
    assert not any(trial.parameters["chunked"] for trial in search.best())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"optimization": {"strategy": "bayes"}}, "did you mean 'bayesian'?"),
        ({"optimization": {"max_iteration": 3}}, "did you mean 'max_iterations'?"),
        ({"optimization": {"max_iterations": 0}}, "an integer of at least 1"),
        ({"optimization": {"seed": True}}, "an integer of at least 0"),
        ({"parameters": {"a": {"type": "integer", "low": 1, "high": 9}}}, "a range, which grid_search cannot try"),
        ({"benchmark": {"num_concurrency": 4}}, "list of integers above 0"),
        ({"benchmark": {"traffic_scenarios": "D(1,1)"}}, "must be a list"),
        ({"benchmark": {"max_time_per_iteration": 0}}, "minutes above 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes: Mapping[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refused:
        read_problem({**task("grid_search"), **changes})
    assert said in str(refused.value)


def test_only_the_strategy_that_asks_optuna_loads_it() -> None:
    loaded = "corral, corral.features.tuner.search.search, corral.features.tuner.search.random_search"
    code = f"import sys, {loaded}; print('optuna' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_the_levels_of_a_search_are_those_that_are_measured() -> None:
    twice = {"traffic_scenarios": ["D(1,1)", "D(2,2)", "D(1,1)"], "num_concurrency": [8, 1, 8]}
    for benchmark in ({}, twice):
        loads = loads_of(from_plain(BenchmarkSpec, benchmark))
        levels = read_problem({**task("grid_search"), "benchmark": benchmark}).levels
        assert [(load.scenario, load.concurrency) for load in loads] == [
            (one.scenario, one.concurrency) for one in levels
        ]
        assert len(set(loads)) == len(loads)
