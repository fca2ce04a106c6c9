"""The summary of an experiment, for a row of a table or an event. Pure."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from corral.features.tuner.finding_answers import ExperimentSummary
from corral.features.tuner.measuring.noise import noise_in_words
from corral.features.tuner.model.experiment import Experiment
from corral.features.tuner.model.tuning_error import for_everybody, shortened

FIGURES = (
    *("mean_e2e_latency", "p50_e2e_latency", "p90_e2e_latency", "p99_e2e_latency", "mean_ttft", "mean_tpot"),
    *("mean_output_throughput", "mean_total_throughput", "mean_total_throughput_per_gpu", "success_rate"),
    "energy_per_output_token_j",
)
"""The metrics in a summary."""

MONITORED = ("gpu_monitoring", "sample_count")
"""The path in the metrics to the number of samples of the GPUs."""

MOST_CHARACTERS = 1_000
_MOST_MODEL = 100


def summary_of(
    experiment: Experiment, picked: Mapping[str, Any] | None = None, *, whole: bool = False
) -> ExperimentSummary:
    """Return the summary of an experiment. `picked` replaces its metrics if it was read without them.

    `picked` has the `FIGURES`, and "gpu_monitoring" as true or false. With `whole` the error message includes lines of
    the server's log, which not everybody may read. The user of a task writes its metrics, so values that are no numbers
    are left out.
    """
    found = _picked(experiment.metrics or {}) if picked is None else picked
    gpus = experiment.gpu_info or {}
    count, model, error = gpus.get("count"), gpus.get("model"), experiment.error_message
    if not whole:
        error = for_everybody(error)
    return ExperimentSummary(
        id=experiment.id,
        task_id=experiment.task_id,
        experiment_id=experiment.experiment_id,
        parameters=experiment.parameters,
        status=experiment.status,
        job_id=experiment.job_id,
        objective_score=experiment.objective_score,
        gpus=count if type(count) is int else None,
        gpu_model=model[:_MOST_MODEL] if type(model) is str else None,
        monitored=bool(found.get(MONITORED[0])),
        figures={name: found[name] for name in FIGURES if _is_number(found.get(name))},
        error_message=None if error is None else shortened(error, MOST_CHARACTERS),
        created_at=experiment.created_at,
        started_at=experiment.started_at,
        completed_at=experiment.completed_at,
        repeats=experiment.repeats,
        disturbances=noise_in_words(experiment.noise),
    )


def _picked(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    monitoring = metrics.get(MONITORED[0])
    return {**metrics, MONITORED[0]: isinstance(monitoring, Mapping) and bool(monitoring.get(MONITORED[1]))}


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)
