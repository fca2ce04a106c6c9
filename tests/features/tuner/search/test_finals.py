"""The best are measured again at the end of a search, until it is known what cannot be told apart."""

from collections.abc import Callable
from dataclasses import replace

from corral.features.tuner.search.problem import MOST_REPEATS, Problem, read_problem
from corral.features.tuner.search.search import Search
from corral.features.tuner.search.standing import ScoredMeasurement, standings
from corral.features.tuner.search.trial import Candidate, FailedStep, Finished, Later, LevelReading, Trial, TrialFailure

Score = Callable[[Candidate], float | None]


def problem(count: int, **optimization: object) -> Problem:
    return read_problem({"parameters": {"batch": list(range(count))}, "optimization": dict(optimization)})


def ended(of: Problem, found: Candidate, score: float | None, gpu_model: str | None = None) -> Trial:
    trial = Trial(found.number, found.parameters, ended=True, repeats=found.repeats, gpu_model=gpu_model)
    if score is None:
        return replace(trial, failure=TrialFailure(FailedStep.DEPLOY))
    return replace(trial, readings=tuple(LevelReading(level, {"mean_e2e_latency": score}) for level in of.levels))


def run(of: Problem, score: Score, model: Callable[[Candidate], str | None] = lambda found: None) -> Search:
    search = Search(of)
    while isinstance(found := search.ask(), Candidate):
        search.tell(ended(of, found, score(found), model(found)))
    assert isinstance(search.ask(), Finished)
    return search


def repeated(search: Search) -> list[int | None]:
    return [trial.repeats for trial in search.trials if trial.repeats is not None]


def test_the_best_is_measured_twice_also_if_it_is_alone() -> None:
    search = run(problem(1), lambda found: 1.0)
    assert repeated(search) == [1]


def test_what_is_within_the_measured_noise_of_the_best_is_measured_again_and_nothing_else() -> None:
    # Batch 0 is the best by its first measurement; the second one is 4 % worse.
    first = [1.00, 1.03, 1.10, 2.0]
    search = run(problem(4), lambda found: first[int(found.parameters["batch"])] * (1.04 if found.repeats else 1.0))
    assert repeated(search) == [1, 2]


def test_a_lucky_measurement_does_not_win() -> None:
    first, second = [1.00, 1.02, 1.5], [1.20, 1.02, 1.5]
    search = run(problem(3), lambda found: (second if found.repeats else first)[int(found.parameters["batch"])])
    assert search.best()[0].parameters == {"batch": 1}
    assert repeated(search) == [1, 2]


def test_a_repeat_that_fails_is_not_tried_again_and_the_finals_end() -> None:
    search = run(problem(3), lambda found: None if found.repeats else 1.0 + found.number)
    assert repeated(search) == [1]


def test_there_are_at_most_so_many_repeats() -> None:
    search = run(problem(20), lambda found: 1.0 if found.repeats is None else 1.0 + found.number % 2)
    assert len(repeated(search)) == MOST_REPEATS


def test_nothing_is_measured_again_where_nothing_was_measured() -> None:
    assert repeated(run(problem(3), lambda found: None)) == []


def test_the_best_on_each_model_of_gpu_is_measured_again() -> None:
    search = run(
        problem(4),
        lambda found: 1.0 + float(found.parameters["batch"]),
        lambda found: "T4" if found.parameters["batch"] in (1, 3) else "H100",
    )
    assert repeated(search) == [1, 2]
    assert [trial.number for trial in search.best()] == [1, 2]


def test_while_the_last_candidate_runs_the_finals_wait_and_a_search_made_anew_goes_on_with_them() -> None:
    of = replace(problem(2), max_parallel=2)
    search = Search(of)
    one, other = search.ask(), search.ask()
    assert isinstance(one, Candidate)
    assert isinstance(other, Candidate)
    search.tell(ended(of, one, 1.0))
    assert isinstance(search.ask(), Later)
    search.tell(ended(of, other, 2.0))
    assert search.ask() == Candidate(3, one.parameters, repeats=1)
    assert isinstance(search.ask(), Later)
    again = Search(of, [*search.trials[:2], ended(of, Candidate(3, one.parameters, 1), 1.0)])
    assert isinstance(again.ask(), Finished)


def test_a_difference_within_the_spread_of_repeats_is_a_tie() -> None:
    rows = [(1, "a", 100.0), (2, "b", 103.0), (3, "c", 110.0), (4, "a", 104.0)]
    (standing,) = standings(ScoredMeasurement(number, name, score, "H100") for number, name, score in rows)
    assert standing.gpu_model == "H100"
    assert [place.numbers for place in standing.places] == [(1, 4), (2,), (3,)]
    assert round(standing.spread or 0.0, 4) == round(4 / 102, 4)
    assert [place.numbers for place in standing.finalists] == [(1, 4), (2,)]


def test_scores_of_throughput_which_are_negative_are_compared_alike() -> None:
    rows = [(1, "a", -100.0), (2, "b", -97.0), (3, "c", -80.0), (4, "a", -96.0)]
    (standing,) = standings(ScoredMeasurement(number, name, score, None) for number, name, score in rows)
    assert [place.numbers for place in standing.finalists] == [(1, 4), (2,)]
    assert standings([]) == ()
    assert standings([ScoredMeasurement(1, "a", 0.0, None), ScoredMeasurement(2, "b", 1.0, None)])[0].spread is None
