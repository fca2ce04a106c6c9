"""Converts the ledger's record of an experiment to a trial of the search, and back. Pure."""

from typing import Any

from corral.features.tuner.answers import ExperimentRow
from corral.features.tuner.measuring.gpu_records import model_in
from corral.features.tuner.search.trial import LevelReading, Trial, TrialFailure
from corral.wire import from_plain, to_plain


def trial_of(row: ExperimentRow) -> Trial:
    """Return an experiment as a trial of the search."""
    state = row.search_state
    failure = state.get("failure")
    return Trial(
        row.experiment_id,
        row.parameters,
        tuple(from_plain(LevelReading, reading) for reading in state.get("readings", ())),
        ended=row.status in ("success", "failed"),
        failure=None if failure is None else from_plain(TrialFailure, failure),
        repeats=row.repeats,
        gpu_model=model_in(row.gpu_info),
    )


def state_of(trial: Trial) -> dict[str, Any]:
    """Return the stored state of a trial without its number and parameters."""
    return {
        "readings": [to_plain(reading) for reading in trial.readings],
        "failure": None if trial.failure is None else to_plain(trial.failure),
    }
