"""The use cases of experiments: the tuner records its experiments and their results, and all users read them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.model.errors import Conflict, NotFound, Refused
from corral.core.model.units import format_bytes, is_whole
from corral.core.ports.ledger import Decided, Ledger
from corral.features.tuner.answers import ExperimentList, ExperimentRow
from corral.features.tuner.bodies import NewExperiment
from corral.features.tuner.experiment_table import ExperimentTable
from corral.features.tuner.facts import ExperimentChanged, ExperimentCreated, ExperimentEnded
from corral.features.tuner.measuring.noise import noise_in_words
from corral.features.tuner.model.experiment import Experiment, ExperimentChange, ExperimentStatus
from corral.features.tuner.model.tuning_error import for_everybody, shortened
from corral.features.tuner.model.tuning_task import TaskStatus
from corral.features.tuner.slice import TunerSlice
from corral.features.tuner.task_access import MAX_ERROR, known_task
from corral.features.tuner.task_bounds import MOST_EXPERIMENTS, within
from corral.features.tuner.task_permissions import may_change_task, may_see_server_log
from corral.wire import MAX_INTEGER

MOST_METRICS_BYTES = 1 << 20
MOST_PARAMETERS_BYTES = 64 * 1024
MOST_DIGITS = 10


class ExperimentAccess:
    """The use cases of experiments. Thread-safe. The caller checks the scope of a token before."""

    def __init__(self, ledger: Ledger, experiments: ExperimentTable, clock: Clock) -> None:
        self._ledger = ledger
        self._experiments = experiments
        self._clock = clock

    def of_task(
        self, task_id: str, caller: Caller, *, after: int = 0, limit: int, metrics: bool = False
    ) -> ExperimentList:
        """Return experiments of a task with numbers above `after`, in order. Raises NotFound."""
        within("limit", limit, 1, MOST_EXPERIMENTS)
        within("after", after, 0, MAX_INTEGER)
        task = known_task(self._known(), task_id)
        found = self._experiments.of_task(task_id, after=after, limit=limit, metrics=metrics)
        now, whole = self._clock.now(), may_see_server_log(caller, task.user)
        return ExperimentList(in_wall_time(tuple(_row(one, now, whole) for one in found), self._clock))

    def find(self, experiment_id: str, caller: Caller) -> ExperimentRow:
        """Return an experiment with its metrics. Raises NotFound."""
        found = self._find(experiment_id)
        task = known_task(self._known(), found.task_id)
        return self._told(found, may_see_server_log(caller, task.user))

    def of_number(self, task_id: str, number: str, caller: Caller) -> ExperimentRow:
        """Return the experiment of a task with this number, without its metrics. Raises NotFound."""
        if is_whole(number) and len(number) < MOST_DIGITS:
            for row in self.of_task(task_id, caller, after=max(0, int(number) - 1), limit=1).experiments:
                if row.experiment_id == int(number):
                    return row
        raise NotFound(f"task {task_id:.40} has no experiment {number!r:.40}; `corral experiments TASK` lists them")

    def create(self, wanted: NewExperiment, caller: Caller) -> ExperimentRow:
        """Record the next experiment of a running task.

        Raises Refused, NotFound, Forbidden, and Conflict if its number is not the next number. So a second tuner, or a
        repeated request, cannot record an experiment twice.
        """
        task_id, number = wanted.task_id, wanted.experiment_id
        _check_size("parameters", wanted.parameters, MOST_PARAMETERS_BYTES)
        _check_size("search_state", wanted.search_state, MOST_PARAMETERS_BYTES)
        (experiment_id,) = self._ledger.next_ids(1)
        at = self._clock.now()
        made = Experiment(
            experiment_id,
            task_id,
            number,
            wanted.parameters,
            at,
            search_state=wanted.search_state,
            repeats=wanted.repeats,
        )

        def decide(tuner: TunerSlice) -> Decided[Experiment]:
            task = known_task(tuner, task_id)
            may_change_task(caller, task)
            if task.status is not TaskStatus.RUNNING:
                raise Conflict(f"task {task_id} is {task.status}, so it begins no more experiments")
            alive = [one.experiment_id for one in tuner.experiments.values() if one.task_id == task_id]
            following = max([self._experiments.last_number(task_id), *alive]) + 1
            if number != following:
                raise Conflict(f"the next experiment of task {task_id} is number {following}, not {number}")
            return Decided((ExperimentCreated(made, by=caller.user, at=at),), made)

        return self._told(self._ledger.commit_in(TunerSlice, decide, user=caller.user).result())

    def change(self, experiment_id: str, change: ExperimentChange, caller: Caller) -> ExperimentRow:
        """Update the record of an experiment.

        Raises Refused, NotFound, Forbidden, and Conflict once the experiment is over: its result is final.
        """
        if change.metrics is not None:
            _check_size("metrics", change.metrics, MOST_METRICS_BYTES)
        for name in ("gpu_info", "search_state", "noise"):
            _check_size(name, getattr(change, name) or {}, MOST_PARAMETERS_BYTES)
        known = self._find(experiment_id)
        at = self._clock.now()

        def decide(tuner: TunerSlice) -> Decided[Experiment]:
            may_change_task(caller, known_task(tuner, known.task_id))
            experiment = tuner.experiments.get(experiment_id)
            if experiment is None:
                raise Conflict(f"experiment {known.experiment_id} of task {known.task_id} is over")
            changed = _changed(experiment, change, at)
            fact = ExperimentEnded if changed.status.over else ExperimentChanged
            return Decided((fact(changed, by=caller.user, at=at),), changed)

        return self._told(self._ledger.commit_in(TunerSlice, decide, user=caller.user).result())

    def _find(self, experiment_id: str) -> Experiment:
        found = self._known().experiments.get(experiment_id) or self._experiments.find(experiment_id)
        if found is None:
            raise NotFound(f"there is no experiment {experiment_id!r:.40}; `corral experiments TASK` lists them")
        return found

    def _known(self) -> TunerSlice:
        return self._ledger.snapshot().of(TunerSlice)

    def _told(self, experiment: Experiment, whole: bool = True) -> ExperimentRow:
        return in_wall_time(_row(experiment, self._clock.now(), whole), self._clock)


def _changed(experiment: Experiment, change: ExperimentChange, at: float) -> Experiment:
    new = {name: value for name in ExperimentChange.__slots__ if (value := getattr(change, name)) is not None}
    if change.error_message is not None:
        new["error_message"] = shortened(change.error_message, MAX_ERROR)
    changed = replace(experiment, **new)
    if changed.started_at is None and changed.status is not ExperimentStatus.PENDING:
        changed = replace(changed, started_at=at)
    return replace(changed, completed_at=at) if changed.status.over else changed


def _check_size(field: str, value: Mapping[str, Any], most: int) -> None:
    size = len(json.dumps(value))
    if size > most:
        raise Refused(f"{field} has {format_bytes(size)}; at most {format_bytes(most)} are allowed", field=field)


def _row(experiment: Experiment, now: float, whole: bool) -> ExperimentRow:
    until = now if experiment.completed_at is None else experiment.completed_at
    return ExperimentRow(
        id=experiment.id,
        task_id=experiment.task_id,
        experiment_id=experiment.experiment_id,
        parameters=experiment.parameters,
        status=experiment.status,
        search_state=experiment.search_state,
        job_id=experiment.job_id,
        service_name=experiment.service_name,
        service_url=experiment.service_url,
        error_message=experiment.error_message if whole else for_everybody(experiment.error_message),
        objective_score=experiment.objective_score,
        gpu_info=experiment.gpu_info,
        metrics=experiment.metrics,
        created_at=experiment.created_at,
        started_at=experiment.started_at,
        completed_at=experiment.completed_at,
        elapsed_time=None if experiment.started_at is None else until - experiment.started_at,
        repeats=experiment.repeats,
        noise=experiment.noise,
        disturbances=noise_in_words(experiment.noise),
    )
