"""The slice with the tasks of the autotuner and their unfinished experiments."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from corral.core.model.draft import DraftOf
from corral.core.model.fact import Delta
from corral.core.model.slice import Slice
from corral.core.model.view import EMPTY
from corral.features.tuner.experiment_table import ExperimentRows
from corral.features.tuner.facts import ExperimentFact, TaskDeleted, TaskFact
from corral.features.tuner.model.experiment import Experiment
from corral.features.tuner.model.tuning_task import TuningTask


@dataclass(frozen=True)
class TunerSlice(Slice):
    """Tasks and their unfinished experiments. The table of experiments also has the finished ones.

    Attributes:
        tasks: all tasks, by id.
        experiments: unfinished experiments, by id.
    """

    tasks: Mapping[str, TuningTask] = field(default_factory=lambda: EMPTY)
    experiments: Mapping[str, Experiment] = field(default_factory=lambda: EMPTY)

    deltas = (TaskFact, TaskDeleted, ExperimentFact)
    rows = ExperimentRows

    @staticmethod
    def fold(draft: "DraftOf[TunerSlice]", delta: Delta) -> None:
        """Store the new state of a task or an experiment from the fact."""
        match delta:
            case TaskFact(task=task):
                draft.put("tasks", task.id, task)
            case TaskDeleted(task_id=task_id):
                draft.drop("tasks", task_id)
            case ExperimentFact(experiment=experiment) if experiment.status.over:
                draft.drop("experiments", experiment.id)
            case ExperimentFact(experiment=experiment):
                draft.put("experiments", experiment.id, experiment)
