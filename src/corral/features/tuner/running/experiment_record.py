"""Converts the ledger's record of an experiment to a trial of the search, and back. Pure."""

from collections.abc import Mapping
from typing import Any

from corral.features.tuner.answers import ExperimentRow
from corral.features.tuner.measuring.gpu_records import model_in
from corral.features.tuner.search.trial import FailedStep, LevelReading, Trial, TrialFailure
from corral.untrusted import Unread, guarded
from corral.wire import from_plain, to_plain


def trial_of(row: ExperimentRow) -> Trial:
    """Return an experiment as a trial of the search.

    The task's user may have written any state. A trial whose state cannot be read has failed, without readings.
    """
    state = guarded(f"the state of experiment {row.id}", lambda: _stored(row.search_state))
    readings, failure = ((), TrialFailure(FailedStep.OTHER)) if isinstance(state, Unread) else state
    return Trial(
        row.experiment_id,
        row.parameters,
        readings,
        ended=row.status in ("success", "failed"),
        failure=failure,
        repeats=row.repeats,
        gpu_model=model_in(row.gpu_info),
    )


def state_of(trial: Trial) -> dict[str, Any]:
    """Return the stored state of a trial without its number and parameters."""
    return {
        "readings": [to_plain(reading) for reading in trial.readings],
        "failure": None if trial.failure is None else to_plain(trial.failure),
    }


def _stored(state: Mapping[str, Any]) -> tuple[tuple[LevelReading, ...], TrialFailure | None]:
    """Return the stored readings and failure of a trial. Raises whatever an invalid state raises."""
    failure = state.get("failure")
    return (
        tuple(from_plain(LevelReading, reading) for reading in state.get("readings", ())),
        None if failure is None else from_plain(TrialFailure, failure),
    )
