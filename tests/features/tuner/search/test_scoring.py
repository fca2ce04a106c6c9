"""Scores are the documented formulas, by value."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.errors import Refused
from corral.features.tuner.search.objective import Objective
from corral.features.tuner.search.scoring import Scoring, ServiceLimit, failure_score, read_scoring
from corral.features.tuner.search.trial import FailedStep, LevelReading, LoadLevel, TrialFailure

TPOT = ServiceLimit("mean_tpot", threshold_s=0.1, weight=2.0)
HARD = ServiceLimit("mean_tpot", threshold_s=0.1, hard_fail=True, fail_ratio=0.5)


def readings(*levels: dict[str, float]) -> list[LevelReading]:
    return [LevelReading(LoadLevel("D(100,100)", 2**n, 1.0), metrics) for n, metrics in enumerate(levels)]


def score(scoring: Scoring, *levels: dict[str, float]) -> float | None:
    found = scoring.of_readings(readings(*levels))
    return None if found is None else found[0]


@pytest.mark.parametrize(
    ("objective", "metrics", "expected"),
    [
        (Objective.LATENCY, {"mean_e2e_latency": 2.0, "p50_e2e_latency": 1.0}, 2.0),
        (Objective.LATENCY, {"p50_e2e_latency": 1.0}, 1.0),
        (Objective.THROUGHPUT, {"mean_total_throughput_per_gpu": 50.0, "mean_total_throughput": 100.0}, -50.0),
        (Objective.THROUGHPUT, {"mean_total_throughput": 100.0, "mean_output_throughput": 60.0}, -100.0),
        (Objective.THROUGHPUT, {"mean_output_throughput": 60.0}, -60.0),
        (Objective.TTFT, {"mean_ttft": 0.3}, 0.3),
        (Objective.TPOT, {"mean_tpot": 0.02}, 0.02),
        (Objective.TPOT, {"mean_ttft": 0.02}, None),
    ],
)
def test_the_base_score_is_the_first_metric_there_is(
    objective: Objective, metrics: dict[str, float], expected: float | None
) -> None:
    assert score(Scoring((objective,)), metrics) == expected


def test_an_exceeded_limit_costs_the_exponential_of_its_ratio() -> None:
    metrics = {"mean_ttft": 0.4, "mean_tpot": 0.12}  # r = 0.2, r / steepness = 2
    continuous = score(Scoring((Objective.TTFT,), (TPOT,)), metrics)
    compatible = score(Scoring((Objective.TTFT,), (TPOT,), compatible=True), metrics)
    assert continuous == pytest.approx(0.4 + 0.4 * 2 * (math.exp(2) - 1))
    assert compatible == pytest.approx(0.4 + 0.4 * 2 * math.exp(2))


def test_the_penalty_of_throughput_is_of_its_amount_so_it_is_never_a_gain() -> None:
    metrics = {"mean_total_throughput": 100.0, "mean_tpot": 0.11}
    found = score(Scoring((Objective.THROUGHPUT,), (TPOT,)), metrics)
    assert found == pytest.approx(-100 + 100 * 2 * (math.e - 1))


def test_at_the_limit_the_score_is_continuous_and_the_compatible_one_jumps_by_the_weight() -> None:
    just_over = {"mean_ttft": 1.0, "mean_tpot": 0.1 * (1 + 1e-9)}
    assert score(Scoring((Objective.TTFT,), (TPOT,)), just_over) == pytest.approx(1.0)
    assert score(Scoring((Objective.TTFT,), (TPOT,), compatible=True), just_over) == pytest.approx(3.0)
    assert score(Scoring((Objective.TTFT,), (TPOT,), compatible=True), {"mean_ttft": 1.0, "mean_tpot": 0.1}) == 1.0


def test_levels_that_failed_by_a_limit_leave_the_average_unless_all_did() -> None:
    scoring = Scoring((Objective.TTFT,), (HARD,))
    good, bad = {"mean_ttft": 0.2, "mean_tpot": 0.05}, {"mean_ttft": 0.9, "mean_tpot": 0.16}
    assert score(scoring, good, bad) == pytest.approx(0.2)
    assert score(scoring, bad, bad) is None
    arrays = scoring.arrays(readings(bad, bad))
    assert arrays is not None
    assert scoring.violated(arrays)
    assert scoring.scores(arrays)[0] == pytest.approx(0.9 + 0.9 * (math.exp(6) - 1))


def test_a_hard_limit_that_all_levels_break_is_told_at_the_level_that_came_nearest() -> None:
    slow = ServiceLimit("p99_e2e_latency", threshold_s=2.0, hard_fail=True, fail_ratio=0.0)
    scoring = Scoring((Objective.TTFT,), (HARD, slow))
    far = {"mean_ttft": 0.9, "mean_tpot": 0.4, "p99_e2e_latency": 1.0}
    near = {"mean_ttft": 0.9, "mean_tpot": 0.14, "p99_e2e_latency": 2.4}
    said = scoring.why_no_score(readings(far, near))
    assert said == (
        "slo_violation: each of the 2 levels exceeds a hard limit by more than its fail_ratio. "
        "At D(100,100), 2 at a time, the level that exceeds it least, p99_e2e_latency was 2.4 s; "
        "slo.latency.p99 allows 2 s. It is exceeded by 20%; fail_ratio is 0%. "
        "Raise the threshold, or serve with less load"
    )
    alone = scoring.why_no_score(readings(far))
    assert alone is not None
    assert "the only level exceeds" in alone
    assert "mean_tpot was 0.4 s; slo.tpot allows 0.1 s. It is exceeded by 300%; fail_ratio is 50%" in alone
    assert scoring.why_no_score(readings(far, {**near, "p99_e2e_latency": 1.9})) is None


def test_a_metric_that_was_not_measured_is_named_as_why_there_is_no_score() -> None:
    scoring = Scoring((Objective.TTFT,), (TPOT,))
    assert scoring.why_no_score(readings({"mean_ttft": 1.0})) == "no score: mean_tpot was not measured at each level"
    assert scoring.why_no_score(readings({"mean_tpot": 0.1, "mean_ttft": math.nan})) == (
        "no score: mean_ttft was not measured at each level"
    )


def test_a_limit_whose_metric_was_not_measured_gives_no_score() -> None:
    assert score(Scoring((Objective.TTFT,), (TPOT,)), {"mean_ttft": 1.0}) is None
    assert score(Scoring((Objective.TTFT,), (TPOT,)), {"mean_ttft": 1.0, "mean_tpot": math.nan}) is None
    assert score(Scoring((Objective.TTFT,))) is None


@given(st.floats(1e-6, 1e6), st.booleans())
def test_scores_are_numbers_and_never_fall_as_a_limit_is_exceeded_further(tpot: float, compatible: bool) -> None:
    scoring = Scoring((Objective.TTFT,), (TPOT,), compatible=compatible)
    less, more = (score(scoring, {"mean_ttft": 1.0, "mean_tpot": value}) for value in (tpot, tpot * 1.5))
    assert less is not None
    assert more is not None
    assert math.isfinite(more)
    assert less <= more


@pytest.mark.parametrize(
    ("step", "ratio", "expected"),
    [
        (FailedStep.OTHER, 0.0, 1000),
        (FailedStep.OTHER, 0.2, 500),
        (FailedStep.OTHER, 0.6, 200),
        (FailedStep.OTHER, 0.95, 100),
        (FailedStep.DEPLOY, 0.1, 1200),
        (FailedStep.MEMORY, 0.3, 750),
        (FailedStep.CONNECTION, 1.0, 80),
    ],
)
def test_what_failed_early_counts_as_worse(step: FailedStep, ratio: float, expected: float) -> None:
    assert failure_score(TrialFailure(step, ratio)) == pytest.approx(expected)


def test_a_task_says_objectives_and_limits() -> None:
    task = {
        "optimization": {"objective": ["minimize_ttft", "maximize_throughput"], "slo_score": "compatible"},
        "slo": {"latency": {"p99": {"threshold": 5, "hard_fail": True}}, "tpot": {"threshold": 0.1}, "steepness": 0.2},
    }
    assert read_scoring(task) == Scoring(
        (Objective.TTFT, Objective.THROUGHPUT),
        (ServiceLimit("p99_e2e_latency", 5.0, hard_fail=True), ServiceLimit("mean_tpot", 0.1)),
        steepness=0.2,
        compatible=True,
    )


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"optimization": {"objective": "minimise_ttft"}}, "did you mean 'minimize_ttft'?"),
        ({"optimization": {"slo_score": "jump"}}, "continuous or compatible"),
        ({"slo": {"tftt": {"threshold": 1}}}, "did you mean 'ttft'?"),
        ({"slo": {"latency": {"p95": {"threshold": 1}}}}, "slo.latency.p95 is not known"),
        ({"slo": {"ttft": {}}}, "slo.ttft.threshold is None; it must be a number above 0"),
        ({"slo": {"ttft": {"threshold": 1, "wieght": 2}}}, "did you mean 'weight'?"),
        ({"slo": {"ttft": {"threshold": 1, "hard_fail": 1}}}, "true or false"),
        ({"slo": {"ttft": 1}}, "slo.ttft must have threshold"),
        ({"slo": {"steepness": 0}}, "above 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(task: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refused:
        read_scoring(task)
    assert said in str(refused.value)
