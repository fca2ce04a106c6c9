"""Converts facts about tasks and experiments of the autotuner to the rows of events. Pure."""

from corral.core.control.events.rows_of_facts import FindJob, Row, Told, cut
from corral.core.model.fact import Fact
from corral.features.tuner.experiment_summary import summary_of
from corral.features.tuner.facts import ExperimentFact, ExperimentsCleared, TaskDeleted, TaskFact
from corral.features.tuner.model.tuning_error import for_everybody
from corral.features.tuner.model.tuning_task import TuningTask
from corral.wire import to_plain


def of_tasks(fact: Fact, find_job: FindJob) -> Told | None:
    """Return the row of a task, or a summary of an experiment. An experiment has a `task_id`."""
    match fact:
        case TaskFact(task=task):
            return Told(type(fact).__name__.removeprefix("Task").lower(), (_task_row(task),))
        case TaskDeleted(task_id=task_id):
            return Told("deleted", ({"id": task_id},))
        case ExperimentsCleared(task_id=task_id):
            return Told("experiments_cleared", ({"id": task_id},))
        case ExperimentFact(experiment=experiment):
            what = type(fact).__name__.removeprefix("Experiment").lower()
            return Told(f"experiment_{what}", (to_plain(summary_of(experiment)),))
    return None


def _task_row(task: TuningTask) -> Row:
    """Return the row of a task as in listings, but without the results of its experiments."""
    return {
        "id": task.id,
        "user": task.user,
        "task_name": task.spec.task_name,
        "model": task.spec.model.id_or_path,
        "status": task.status,
        "planned_experiments": task.planned_experiments,
        "error_message": cut(for_everybody(task.error_message)),
        "created_at": task.created_at,
        "started_at": task.started_at,
        "completed_at": task.completed_at,
    }
