"""Records of experiments as trials of a search, whatever their task's user wrote."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.features.tuner.answers import ExperimentRow
from corral.features.tuner.model.experiment import ExperimentStatus
from corral.features.tuner.running.experiment_record import state_of, trial_of
from corral.features.tuner.search.trial import FailedStep, LevelReading, LoadLevel, Trial, TrialFailure

READING = LevelReading(LoadLevel("D(1,1)", 1, 1.0), {"mean_ttft": 0.5})
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def record(status: ExperimentStatus, state: dict[str, Any]) -> ExperimentRow:
    return ExperimentRow(
        "1", "7", 3, {"tp": 1}, status, state, None, None, None, None, None, None, None, 0.0, None, None, None
    )


@pytest.mark.parametrize("failure", [None, TrialFailure(FailedStep.MEMORY, 0.5)])
def test_a_trial_comes_back_as_it_was_stored(failure: TrialFailure | None) -> None:
    trial = Trial(3, {"tp": 1}, (READING,), ended=True, failure=failure)
    assert trial_of(record(ExperimentStatus.SUCCESS, state_of(trial))) == trial


@given(readings=ANYTHING, failure=ANYTHING)
def test_a_trial_whose_state_cannot_be_read_has_failed_without_readings(readings: Any, failure: Any) -> None:
    trial = trial_of(record(ExperimentStatus.PENDING, {"readings": readings, "failure": failure}))
    assert (trial.readings, trial.ended) == ((), False)
    assert trial.failure == TrialFailure(FailedStep.OTHER) or (not readings and failure is None)
