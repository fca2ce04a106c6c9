"""Builds the autotuner of a server."""

import logging

from corral.core.access.caller import Caller
from corral.core.model.fact import ServerPart
from corral.features.building import Built, CoreDoors
from corral.features.tuner.experiment_access import ExperimentAccess
from corral.features.tuner.experiment_table import ExperimentTable
from corral.features.tuner.model.tuning_task import TaskStatus
from corral.features.tuner.running.tuner_processes import LOOK_INTERVAL_S, TaskOfUser, TunerProcesses
from corral.features.tuner.slice import TunerSlice
from corral.features.tuner.task_access import TaskAccess
from corral.features.tuner.task_insight import TaskInsight

log = logging.getLogger("corral")


def build(core: CoreDoors) -> Built:
    """The use cases of tasks and experiments, and the patrol that keeps a process running for each task."""
    table = ExperimentTable(core.database)
    tasks = TaskAccess(core.ledger, table, core.clock, core.settings.tuner)
    experiments = ExperimentAccess(core.ledger, table, core.clock)
    insight = TaskInsight(core.ledger, table, core.clock, tasks, experiments, site=core.settings.tuner)

    def give_up(task_id: str, why: str) -> None:
        log.error("task %s has failed: %s", task_id, why)
        tasks.end(task_id, TaskStatus.FAILED, why, Caller(ServerPart.TUNER, admin=True))

    def wanted() -> tuple[TaskOfUser, ...]:
        return _to_run(core.ledger.snapshot().of(TunerSlice))

    tuners = TunerProcesses(core.home.root, core.settings.tuner, wanted, give_up)
    return Built(
        offers=(tasks, experiments, insight),
        patrols=(core.patrol("tuners", tuners.look, LOOK_INTERVAL_S),),
        close=tuners.close,
    )


def _to_run(tuner: TunerSlice) -> tuple[TaskOfUser, ...]:
    """The tasks that run, and the tasks with experiments that must still be stopped."""
    left = {experiment.task_id for experiment in tuner.experiments.values()}
    return tuple(
        TaskOfUser(task.id, task.user)
        for task in tuner.tasks.values()
        if task.status is TaskStatus.RUNNING or task.id in left
    )
