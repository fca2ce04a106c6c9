"""The model learns of short and long readings alike, and takes what is being measured for known."""

from dataclasses import replace

import numpy as np
import pytest

from corral.features.tuner.search.problem import read_problem
from corral.features.tuner.search.surrogate import Encoding, Surrogate, learn_lengths, learned_from, observe
from corral.features.tuner.search.trial import LevelReading, Trial

PROBLEM = read_problem(
    {
        "parameters": {"batch": [1, 2, 3, 4, 5, 6, 7, 8, 9]},
        "optimization": {"strategy": "racing", "objective": "minimize_ttft"},
        "benchmark": {"num_concurrency": [1, 8], "max_time_per_iteration": 2},
    }
)
ENCODING = Encoding(PROBLEM)


def measured(number: int, batch: int, *, minutes: float = 2.0, factor: float = 1.0) -> Trial:
    """The time to the first token grows with the batch and the load."""
    readings = tuple(
        LevelReading(replace(level, minutes=minutes), {"mean_ttft": factor * batch * level.concurrency})
        for level in PROBLEM.levels
    )
    return Trial(number, {"batch": batch}, readings, ended=True)


def model(trials: list[Trial]) -> Surrogate:
    observed = observe(PROBLEM, ENCODING, trials)
    assert observed is not None
    return Surrogate(PROBLEM, observed, learn_lengths(observed))


def test_what_a_server_does_worse_at_first_is_learned_of_those_that_were_measured_twice() -> None:
    twice = [measured(n, 3, minutes=0.2, factor=1.2) for n in range(1, 40)]
    whole = [measured(50 + n, 3) for n in range(39)]
    both = [replace(trial, parameters={"batch": n % 9 + 1}) for n, trial in enumerate((*twice, *whole))]
    observed = observe(PROBLEM, ENCODING, [*(one for one in both if one.parameters["batch"] != 9), both[8]])
    assert observed is not None
    assert [parameters["batch"] for parameters in observed.parameters][8] == 9
    probed_alone = observed.metrics["mean_ttft"][8]
    assert np.exp(probed_alone) == pytest.approx([3.0, 24.0], rel=0.08)
    assert observed.noise_weights[8] == pytest.approx(10.0)
    assert (observed.noise_weights[:8] < 1.0).all()


def test_a_candidate_is_known_once_all_loads_were_measured() -> None:
    whole = measured(1, 3)
    begun = replace(whole, readings=whole.readings[:1])
    assert observe(PROBLEM, ENCODING, [begun]) is None
    observed = observe(PROBLEM, ENCODING, [whole, replace(begun, number=2, parameters={"batch": 5})])
    assert observed is not None
    assert observed.parameters == [{"batch": 3}]


def test_where_something_is_being_measured_nothing_is_unsure_any_more() -> None:
    known = model([measured(n, batch) for n, batch in enumerate((1, 2, 4), 1)])
    place = ENCODING.points([{"batch": 9}])
    believed = known.believing(place)
    assert believed.expected(place)[0, 0] == pytest.approx(known.expected(place)[0, 0], rel=0.05)
    assert np.ptp(believed.scores(place)) < np.ptp(known.scores(place)) / 2


def test_a_doubted_model_is_less_sure_between_what_was_measured() -> None:
    known = model([measured(n, batch) for n, batch in enumerate((1, 2, 3, 7, 8, 9), 1)])
    place = ENCODING.points([{"batch": 5}])
    assert np.ptp(known.doubted().scores(place)) > 1.2 * np.ptp(known.scores(place))


@pytest.mark.parametrize("count", [0, 1, 2, 9, 100])
def test_lengths_are_learned_of_most_of_the_trials(count: int) -> None:
    trials = [measured(n, 1) for n in range(count)]
    learned = learned_from(trials)
    assert list(learned) == trials[: len(learned)]
    assert len(learned) >= count / 1.2
