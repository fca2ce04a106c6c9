"""Converts the ledger's record of an experiment to a trial of the search, and back. Pure."""

from collections.abc import Mapping
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


def state_of(trial: Trial, windows: list[tuple[float, float]]) -> dict[str, Any]:
    """Return the stored state of a trial without its number and parameters; `windows` are its measurements (Unix
    seconds).
    """
    return {
        "readings": [to_plain(reading) for reading in trial.readings],
        "windows": [list(window) for window in windows],
        "failure": None if trial.failure is None else to_plain(trial.failure),
    }


def windows_of(state: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return the (start, end) times of an experiment's measurements so far."""
    return [(began_at, ended_at) for began_at, ended_at in state.get("windows", ())]
