"""Results of tasks of the autotuner for readers: summaries of experiments, findings, exports, estimates."""

from collections.abc import Iterator
from dataclasses import replace
from threading import Lock
from typing import NamedTuple

from corral.clock import Clock
from corral.config.tuner import TunerSettings
from corral.core.access.caller import Caller
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.model.errors import Conflict
from corral.core.ports.ledger import Ledger
from corral.features.tuner.answers import ExperimentRow, TaskDetail, TaskRow
from corral.features.tuner.experiment_access import ExperimentAccess
from corral.features.tuner.experiment_summary import FIGURES, MONITORED, summary_of
from corral.features.tuner.experiment_table import ExperimentTable
from corral.features.tuner.finding_answers import (
    ExperimentSummaries,
    ExperimentSummary,
    ServingPlan,
    TaskEstimate,
    TaskFindings,
)
from corral.features.tuner.model.experiment import ExperimentStatus
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.model.tuning_task import TaskStatus
from corral.features.tuner.slice import TunerSlice
from corral.features.tuner.task_access import TaskAccess, known_task
from corral.features.tuner.task_bounds import MOST_EXPERIMENTS, check_bounds, within
from corral.features.tuner.task_permissions import may_see_server_log
from corral.wire import MAX_INTEGER

_PAGE = 1_000
_KEPT = 16
_QUICK_S = 0.1
_PAUSES = 50
"""Findings that took longer than `_QUICK_S` are reused for this many times their duration while the task runs."""
_PATHS = (*((name,) for name in FIGURES), MONITORED)


class _Found(NamedTuple):
    """Findings, the state of the experiments that they are based on, and the time until which outdated findings may
    be used.
    """

    state: tuple[object, ...]
    until: float
    findings: TaskFindings


class TaskInsight:
    """The use cases for results. Thread-safe. Every caller with read access may use them.

    The functions of `tasks/` are loaded with the first question, so that a server without tasks starts sooner.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: ExperimentTable,
        clock: Clock,
        tasks: TaskAccess,
        experiments: ExperimentAccess,
        *,
        site: TunerSettings,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._experiments = experiments
        self._site = site
        self._lock = Lock()
        self._found: dict[tuple[str, bool, bool], _Found] = {}

    def estimate(self, spec: TuningSpec, caller: Caller) -> TaskEstimate:
        """Return an estimate of a task without recording anything. Raises Refused as `TaskAccess.create`."""
        from corral.features.tuner.tasks.asked_gpus import asked_gpus
        from corral.features.tuner.tasks.obtainable_gpus import obtainable_gpus
        from corral.features.tuner.tasks.task_check import check_place
        from corral.features.tuner.tasks.task_estimate import estimate

        check_bounds(spec)
        view = self._ledger.view()
        check_place(spec, view, caller.user)
        there = obtainable_gpus(asked_gpus(spec).request, view.nodes.values())
        return estimate(spec, there, self._site)

    def summaries(self, task_id: str, caller: Caller, *, after: int = 0, limit: int) -> ExperimentSummaries:
        """Return summaries of experiments with numbers above `after`, in order. Raises NotFound, Refused."""
        within("limit", limit, 1, MOST_EXPERIMENTS)
        within("after", after, 0, MAX_INTEGER)
        task = known_task(self._ledger.snapshot().of(TunerSlice), task_id)
        found = self._page(task_id, after, limit, may_see_server_log(caller, task.user))
        return ExperimentSummaries(in_wall_time(found, self._clock))

    def findings(self, task_id: str, caller: Caller) -> TaskFindings:
        """Return the findings so far. They are cached until another experiment succeeds. Raises NotFound.

        The findings of a long running task may be slightly outdated, so that computing them takes at most 2 % of a
        core.
        """
        detail = self._tasks.task(task_id, caller)
        task = detail.task
        state = (task.started_at, task.successful_experiments, task.best_experiment_id)
        # The command may contain variables of the servers, and an error lines of their logs. Not every user may see
        # these.
        key = (task_id, bool(detail.config.env), may_see_server_log(caller, task.user))
        with self._lock:
            known = self._found.get(key)
        began = self._clock.now()
        if known is not None:
            same = known.state == state
            if same or (
                task.status is TaskStatus.RUNNING and known.state[0] == task.started_at and began < known.until
            ):
                return known.findings
        found = self._make_findings(detail, caller)
        ended = self._clock.now()
        took_s = ended - began
        until = ended + (_PAUSES * took_s if took_s > _QUICK_S else 0.0)
        with self._lock:
            self._found.pop(key, None)
            self._found[key] = _Found(state, until, found)
            while len(self._found) > _KEPT:
                del self._found[next(iter(self._found))]
        return found

    def table(self, task_id: str, caller: Caller) -> str:
        """Return all experiments as CSV. Raises NotFound."""
        from corral.features.tuner.tasks.task_export import experiments_csv

        detail = self._tasks.task(task_id, caller)
        return experiments_csv(detail, in_wall_time(tuple(self._all(detail.task, caller)), self._clock))

    def winner(self, task_id: str, form: str, caller: Caller) -> str:
        """Return the best experiment in one of the formats of `WINNERS`. Raises NotFound, and Conflict while there
        is none.
        """
        from corral.features.tuner.tasks.task_export import WINNERS

        detail = self._tasks.task(task_id, caller)
        return WINNERS[form](detail, self._mean_winner(detail, caller), self._site)

    def serving(self, task_id: str, number: int | None, caller: Caller) -> ServingPlan:
        """Return how to serve the model as the experiment with this number did; None is the best one.

        Raises Refused, NotFound, and Conflict for an experiment that did not succeed.
        """
        from corral.features.tuner.deployments.model_service_mode import server_env
        from corral.features.tuner.tasks.serving_plan import serving_plan

        detail = self._tasks.task(task_id, caller)
        if number is None:
            one = self._winner(detail, caller)
        else:
            within("experiment", number, 1, MOST_EXPERIMENTS)
            one = self._experiments.of_number(task_id, str(number), caller)
            if one.status is not ExperimentStatus.SUCCESS:
                raise Conflict(
                    f"experiment {number} of task {task_id} is {one.status}; only a success can be served as it was"
                )
        task = known_task(self._ledger.snapshot().of(TunerSlice), task_id)
        hidden = server_env(task.spec).keys() - detail.config.env.keys()
        return replace(serving_plan(detail, one, self._site), env_withheld=bool(hidden))

    def _winner(self, detail: TaskDetail, caller: Caller) -> ExperimentRow:
        if detail.task.best_experiment_id is None:
            if self._store.scored(detail.task.id):
                why = "its experiments ran on several models of GPU, whose figures do not compare; name one of them"
                raise Conflict(f"task {detail.task.id} has no winner: {why}")
            if detail.task.successful_experiments:
                raise Conflict(f"task {detail.task.id} has no winner: no experiment has a score yet")
            raise Conflict(f"no experiment of task {detail.task.id} has succeeded yet, so there is no winner")
        return self._experiments.find(detail.task.best_experiment_id, caller)

    def _mean_winner(self, detail: TaskDetail, caller: Caller) -> ExperimentRow:
        """Return the best experiment with the means of all measurements of its combination."""
        from corral.features.tuner.tasks.best_combinations import best_combinations, mean_of

        first = self._winner(detail, caller)
        for best in best_combinations(tuple(self._all(detail.task, caller))):
            if first.id in [one.id for one in best.experiments]:
                return mean_of([self._experiments.find(one.id, caller) for one in best.experiments])
        return first

    def _make_findings(self, detail: TaskDetail, caller: Caller) -> TaskFindings:
        from corral.features.tuner.tasks.task_findings import findings, measured_bests

        summaries = tuple(self._all(detail.task, caller))
        bests = measured_bests(detail, summaries, lambda one: self._experiments.find(one, caller))
        return findings(detail, summaries, bests, self._site)

    def _all(self, task: TaskRow, caller: Caller) -> Iterator[ExperimentSummary]:
        after, whole = 0, may_see_server_log(caller, task.user)
        while page := self._page(task.id, after, _PAGE, whole):
            yield from page
            after = page[-1].experiment_id

    def _page(self, task_id: str, after: int, limit: int, whole: bool) -> tuple[ExperimentSummary, ...]:
        found = self._store.of_task(task_id, after=after, limit=limit, metrics=False)
        picked = self._store.picked(task_id, _PATHS, after=after, limit=limit)
        names = (*FIGURES, MONITORED[0])
        return tuple(
            summary_of(one, dict(zip(names, picked.get(one.id, ()), strict=False)), whole=whole) for one in found
        )
