"""The use cases of tasks of the autotuner: create, start and end a task, and show its state."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from corral.clock import Clock
from corral.config.tuner import TunerSettings
from corral.core.access.caller import Caller
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.model.errors import Conflict, NotFound, Refused
from corral.core.model.fact import Fact
from corral.core.model.units import count_of
from corral.core.ports.ledger import Decided, Ledger
from corral.features.tuner.answers import TaskDetail, TaskList, TaskRow
from corral.features.tuner.experiment_table import ExperimentSums, ExperimentTable
from corral.features.tuner.facts import (
    ExperimentsCleared,
    TaskCancelled,
    TaskCreated,
    TaskDeleted,
    TaskEdited,
    TaskEnded,
    TaskPlanned,
    TaskStarted,
)
from corral.features.tuner.model.tuning_error import for_everybody, shortened
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.model.tuning_task import TaskStatus, TuningTask
from corral.features.tuner.slice import TunerSlice
from corral.features.tuner.task_bests import BestExperiment, TaskBests
from corral.features.tuner.task_bounds import MOST_EXPERIMENTS, check_bounds, within
from corral.features.tuner.task_permissions import may_change_task, may_see_environment, may_see_server_log

MOST_OF_A_USER = 200
MAX_ERROR = 8_000
"""The most characters of a stored error message."""

DEFAULT_OBJECTIVE = "minimize_latency"

Change = Callable[[TunerSlice, TuningTask], tuple[Fact, ...]]
"""Returns the facts that change a task, or raises Conflict."""


class TaskAccess:
    """The use cases of tasks. Thread-safe. The caller checks the scope of a token before."""

    def __init__(self, ledger: Ledger, experiments: ExperimentTable, clock: Clock, site: TunerSettings) -> None:
        self._ledger = ledger
        self._experiments = experiments
        self._clock = clock
        self._bests = TaskBests(experiments)
        self._site = site

    def tasks(self) -> TaskList:
        """Return all tasks, newest first, with the first line of each error message."""
        sums, now = self._experiments.sums(), self._clock.now()
        rows = [self._row(task, sums.get(task.id), now, whole=False) for task in self._known().tasks.values()]
        rows.sort(key=lambda row: int(row.id), reverse=True)
        return TaskList(in_wall_time(tuple(rows), self._clock))

    def task(self, task_id: str, caller: Caller) -> TaskDetail:
        """Return a task with its specification. Raises NotFound."""
        task = known_task(self._known(), task_id)
        config = task.spec if may_see_environment(caller, task) else replace(task.spec, env={})
        sums, whole = self._experiments.sums(task_id).get(task_id), may_see_server_log(caller, task.user)
        row = self._row(task, sums, self._clock.now(), whole=whole)
        return TaskDetail(in_wall_time(row, self._clock), config)

    def create(self, spec: TuningSpec, caller: Caller) -> TaskRow:
        """Record a task; it begins when it is started. Raises Refused, and Conflict if the user has too many."""
        notes = _checked(spec, self._site)
        self._check_place(spec, caller.user)
        (task_id,) = self._ledger.next_ids(1)
        at = self._clock.now()
        made = TuningTask(task_id, caller.user, spec, at, notes=notes)

        def decide(tuner: TunerSlice) -> Decided[TuningTask]:
            own = sum(task.user == caller.user for task in tuner.tasks.values())
            if own >= MOST_OF_A_USER:
                raise Conflict(f"you have {own} tasks, the most allowed; delete some: corral tasks delete ID")
            return Decided((TaskCreated(made, by=caller.user, at=at),), made)

        return self._told(self._ledger.commit_in(TunerSlice, decide, user=caller.user).result())

    def edit(self, task_id: str, edit: Callable[[TuningSpec], TuningSpec], caller: Caller) -> TaskRow:
        """Change the specification of a task that is not running.

        Experiments belong to the specification for which they were made. So a task with experiments can change only its
        name and description. Raises Refused, NotFound, Forbidden, Conflict.
        """
        known = known_task(self._known(), task_id)
        may_change_task(caller, known)
        spec = edit(known.spec)
        notes = _checked(spec, self._site)

        def change(tuner: TunerSlice, task: TuningTask) -> tuple[Fact, ...]:
            _must_rest(tuner, task)
            if task.spec != known.spec:
                raise Conflict(f"task {task_id} has just been changed by another client; read it again")
            tried = self._experiments.last_number(task_id)
            if tried and replace(task.spec, task_name=spec.task_name, description=spec.description) != spec:
                raise Conflict(
                    f"task {task_id} has {count_of(tried, 'experiment')} for its present settings; `corral tasks "
                    f"clear {task_id}` removes them"
                )
            edited = replace(task, spec=spec, notes=notes)
            return (TaskEdited(edited, by=caller.user, at=self._clock.now()),)

        return self._changed(task_id, caller, change)

    def start(self, task_id: str, caller: Caller) -> TaskRow:
        """Start the task. A failed or cancelled task continues where it stopped.

        Raises NotFound, Forbidden, and Conflict if it is running or completed.
        """

        def change(tuner: TunerSlice, task: TuningTask) -> tuple[Fact, ...]:
            if task.status is TaskStatus.COMPLETED:
                raise Conflict(f"task {task_id} is completed; `corral tasks restart {task_id}` runs it again")
            return (self._started(tuner, task, caller),)

        return self._changed(task_id, caller, change)

    def restart(self, task_id: str, caller: Caller) -> TaskRow:
        """Delete the task's experiments and start it again. Raises as `start`."""

        def change(tuner: TunerSlice, task: TuningTask) -> tuple[Fact, ...]:
            fresh = replace(task, started_at=None, planned_experiments=None)
            begun = self._started(tuner, fresh, caller)
            return (ExperimentsCleared(task_id, by=caller.user, at=begun.at), begun)

        return self._changed(task_id, caller, change)

    def clear(self, task_id: str, caller: Caller) -> TaskRow:
        """Delete the task's experiments. Raises as `start`."""

        def change(tuner: TunerSlice, task: TuningTask) -> tuple[Fact, ...]:
            _must_rest(tuner, task)
            at = self._clock.now()
            fresh = TuningTask(task.id, task.user, task.spec, task.created_at, notes=task.notes)
            return (
                ExperimentsCleared(task_id, by=caller.user, at=at),
                TaskCreated(fresh, by=caller.user, at=at),
            )

        return self._changed(task_id, caller, change)

    def cancel(self, task_id: str, caller: Caller) -> TaskRow:
        """Begin no more experiments of the task; its tuner stops the running ones. Raises NotFound, Forbidden,
        Conflict.
        """

        def change(tuner: TunerSlice, task: TuningTask) -> tuple[Fact, ...]:
            if task.status is TaskStatus.CANCELLED:
                return ()
            if task.status not in (TaskStatus.PENDING, TaskStatus.RUNNING):
                raise Conflict(f"task {task_id} is {task.status} already")
            at = self._clock.now()
            ended = replace(task, status=TaskStatus.CANCELLED, completed_at=at)
            return (TaskCancelled(ended, by=caller.user, at=at),)

        return self._changed(task_id, caller, change)

    def delete(self, task_id: str, caller: Caller) -> TaskRow:
        """Delete a task with its experiments. Return the task as it was.

        Raises NotFound, Forbidden, and Conflict while the task or one of its experiments runs.
        """
        at = self._clock.now()
        row = self._row(known_task(self._known(), task_id), self._experiments.sums(task_id).get(task_id), at)

        def decide(tuner: TunerSlice) -> Decided[None]:
            task = known_task(tuner, task_id)
            may_change_task(caller, task)
            _must_rest(tuner, task)
            return Decided((TaskDeleted(task_id, by=caller.user, at=at),), None)

        self._ledger.commit_in(TunerSlice, decide, user=caller.user).result()
        return in_wall_time(row, self._clock)

    def plan(self, task_id: str, experiments: int, caller: Caller) -> TaskRow:
        """Record the tuner's count of the most experiments of the task. Raises NotFound, Forbidden, Conflict."""

        within("experiments", experiments, 0, MOST_EXPERIMENTS)

        def change(tuner: TunerSlice, task: TuningTask) -> tuple[Fact, ...]:
            _must_run(task)
            planned = replace(task, planned_experiments=experiments)
            return (TaskPlanned(planned, by=caller.user, at=self._clock.now()),)

        return self._changed(task_id, caller, change)

    def end(self, task_id: str, status: TaskStatus, error: str | None, caller: Caller) -> TaskRow:
        """Record the end of a task, as reported by its tuner. Raises Refused, NotFound, Forbidden, Conflict."""
        if status not in (TaskStatus.COMPLETED, TaskStatus.FAILED):
            raise Refused("status: a task ends as completed or failed; cancel it with POST .../cancel", field="status")

        def change(tuner: TunerSlice, task: TuningTask) -> tuple[Fact, ...]:
            _must_run(task)
            _must_be_done(tuner, task)
            at = self._clock.now()
            told = None if error is None else shortened(error, MAX_ERROR)
            ended = replace(task, status=status, completed_at=at, error_message=told)
            return (TaskEnded(ended, by=caller.user, at=at),)

        return self._changed(task_id, caller, change)

    def _check_place(self, spec: TuningSpec, user: str) -> None:
        from corral.features.tuner.tasks.task_check import check_place

        check_place(spec, self._ledger.view(), user)

    def _started(self, tuner: TunerSlice, task: TuningTask, caller: Caller) -> TaskStarted:
        _must_rest(tuner, task)
        at = self._clock.now()
        begun = replace(
            task,
            status=TaskStatus.RUNNING,
            started_at=at if task.started_at is None else task.started_at,
            completed_at=None,
            error_message=None,
        )
        return TaskStarted(begun, by=caller.user, at=at)

    def _changed(self, task_id: str, caller: Caller, change: Change) -> TaskRow:
        def decide(tuner: TunerSlice) -> Decided[TuningTask]:
            task = known_task(tuner, task_id)
            may_change_task(caller, task)
            facts = change(tuner, task)
            return Decided(facts, tuner.advance(facts).tasks[task_id])

        return self._told(self._ledger.commit_in(TunerSlice, decide, user=caller.user).result())

    def _known(self) -> TunerSlice:
        return self._ledger.snapshot().of(TunerSlice)

    def _told(self, task: TuningTask) -> TaskRow:
        row = self._row(task, self._experiments.sums(task.id).get(task.id), self._clock.now())
        return in_wall_time(row, self._clock)

    def _row(self, task: TuningTask, sums: ExperimentSums | None, now: float, *, whole: bool = True) -> TaskRow:
        sums = sums or ExperimentSums()
        return _row(task, sums, self._bests.of(task, sums.succeeded), now, whole)


def known_task(tuner: TunerSlice, task_id: str) -> TuningTask:
    """Return the task with this id. Raises NotFound."""
    task = tuner.tasks.get(task_id)
    if task is None:
        raise NotFound(f"there is no task {task_id!r:.40}; `corral tasks` lists them", field="id")
    return task


def _checked(spec: TuningSpec, site: TunerSettings) -> tuple[str, ...]:
    """Return remarks on a task for its user. Raises Refused."""
    # The rules of the search are loaded with the first task, so that a server without tasks starts sooner.
    from corral.features.tuner.tasks.task_check import check_task

    check_bounds(spec)
    return check_task(spec, site)


def _must_rest(tuner: TunerSlice, task: TuningTask) -> None:
    if task.status is TaskStatus.RUNNING:
        raise Conflict(f"task {task.id} is running; `corral tasks cancel {task.id}` stops it")
    _must_be_done(tuner, task)


def _must_be_done(tuner: TunerSlice, task: TuningTask) -> None:
    alive = sum(experiment.task_id == task.id for experiment in tuner.experiments.values())
    if alive:
        raise Conflict(f"{count_of(alive, 'experiment')} of task {task.id} still run; try again when they have ended")


def _must_run(task: TuningTask) -> None:
    if task.status is not TaskStatus.RUNNING:
        raise Conflict(f"task {task.id} is {task.status}, not running")


def _row(task: TuningTask, sums: ExperimentSums, best: BestExperiment | None, now: float, whole: bool) -> TaskRow:
    until = now if task.completed_at is None else task.completed_at
    return TaskRow(
        id=task.id,
        user=task.user,
        task_name=task.spec.task_name,
        model=task.spec.model.id_or_path,
        base_runtime=task.spec.base_runtime,
        deployment_mode=task.spec.deployment_mode,
        objective=_objective_in_words(task.spec.optimization.get("objective") or DEFAULT_OBJECTIVE),
        status=task.status,
        description=task.spec.description,
        total_experiments=sums.experiments,
        successful_experiments=sums.succeeded,
        planned_experiments=task.planned_experiments,
        best_experiment_id=None if best is None else best.id,
        best_score=None if best is None else best.score,
        error_message=task.error_message if whole else for_everybody(task.error_message),
        created_at=task.created_at,
        started_at=task.started_at,
        completed_at=task.completed_at,
        elapsed_time=None if task.started_at is None else until - task.started_at,
        notes=task.notes,
    )


def _objective_in_words(given: Any) -> str:
    return ", ".join(map(str, given)) if isinstance(given, list | tuple) else str(given)
