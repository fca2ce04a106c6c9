"""The tuner's functions that the server uses. numpy is imported only when the search is first needed."""

from corral.core.control.tuning.task_insight import TuningSense
from corral.core.model.answers.tuning_findings import TaskEstimate
from corral.core.model.tuning.tuning_spec import TuningSpec
from corral.tuner.tasks.task_export import WINNERS, experiments_csv
from corral.tuner.tasks.task_findings import best_and_default, findings


def tuning_sense() -> TuningSense:
    """Return the functions for `TaskInsight`."""
    return TuningSense(_estimate, best_and_default, findings, experiments_csv, WINNERS)


def _estimate(spec: TuningSpec, node_gpus: tuple[int, ...]) -> TaskEstimate:
    from corral.tuner.tasks.task_estimate import estimate

    return estimate(spec, node_gpus)
