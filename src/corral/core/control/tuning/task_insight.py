"""Results of tasks of the autotuner for readers: summaries of experiments, findings, exports, estimates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.access.tuning_permissions import may_see_server_log
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.control.tuning.experiment_access import ExperimentAccess
from corral.core.control.tuning.experiment_summary import FIGURES, MONITORED, summary_of
from corral.core.control.tuning.task_access import TaskAccess, known_task
from corral.core.control.tuning.task_checks import MOST_EXPERIMENTS, check_bounds, within
from corral.core.model.answers.tuning import ExperimentRow, TaskDetail, TaskRow
from corral.core.model.answers.tuning_findings import ExperimentSummaries, ExperimentSummary, TaskEstimate, TaskFindings
from corral.core.model.errors import Conflict
from corral.core.model.tuning.tuning_spec import TuningSpec
from corral.core.model.tuning.tuning_task import TaskStatus
from corral.core.ports.ledger import ExperimentStore, Ledger
from corral.features.tuner.slice import TunerSlice
from corral.wire import MAX_INTEGER

_PAGE = 1_000
_KEPT = 16
_QUICK_S = 0.1
_PAUSES = 50
"""Findings that took longer than `_QUICK_S` are reused for this many times their duration while the task runs."""
_PATHS = (*((name,) for name in FIGURES), MONITORED)

Summaries = Sequence[ExperimentSummary]


class _Found(NamedTuple):
    """Findings, the state of the experiments that they are based on, and the time until which outdated findings may
    be used.
    """

    state: tuple[object, ...]
    until: float
    findings: TaskFindings


@dataclass(frozen=True, slots=True)
class TuningSense:
    """The tuner's functions on tasks and experiments; all of them are pure.

    Attributes:
        estimate: returns the estimate of a task on nodes with these numbers of GPUs. Raises Refused for an invalid
            task.
        best_and_default: returns the two experiments to compare, None for a missing one.
        findings: returns the findings of a task, with the two compared experiments.
        table: returns all experiments as CSV.
        winners: functions that export the best experiment, by the name of the format.
    """

    estimate: Callable[[TuningSpec, tuple[int, ...]], TaskEstimate]
    best_and_default: Callable[[TaskDetail, Summaries], tuple[ExperimentSummary | None, ExperimentSummary | None]]
    findings: Callable[[TaskDetail, Summaries, ExperimentRow | None, ExperimentRow | None], TaskFindings]
    table: Callable[[TaskDetail, Summaries], str]
    winners: Mapping[str, Callable[[TaskDetail, ExperimentRow], str]]


class TaskInsight:
    """The use cases for results. Thread-safe. Every caller with read access may use them."""

    def __init__(
        self,
        ledger: Ledger,
        store: ExperimentStore,
        clock: Clock,
        tasks: TaskAccess,
        experiments: ExperimentAccess,
        *,
        sense: Callable[[], TuningSense],
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._experiments = experiments
        self._sense = sense
        self._lock = Lock()
        self._found: dict[tuple[str, bool, bool], _Found] = {}

    def estimate(self, spec: TuningSpec) -> TaskEstimate:
        """Return an estimate of a task without recording anything. Raises Refused as `TaskAccess.create`."""
        check_bounds(spec)
        nodes = self._ledger.view().nodes.values()
        return self._sense().estimate(spec, tuple(len(node.devices) for node in nodes))

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
        detail = self._tasks.task(task_id, caller)
        return self._sense().table(detail, in_wall_time(tuple(self._all(detail.task, caller)), self._clock))

    def winner(self, task_id: str, form: str, caller: Caller) -> str:
        """Return the best experiment in one of the formats of `winners`. Raises NotFound, and Conflict while there
        is none.
        """
        detail = self._tasks.task(task_id, caller)
        if detail.task.best_experiment_id is None:
            raise Conflict(f"no experiment of task {task_id} has succeeded yet, so there is no winner")
        return self._sense().winners[form](detail, self._experiments.find(detail.task.best_experiment_id, caller))

    def _make_findings(self, detail: TaskDetail, caller: Caller) -> TaskFindings:
        summaries = tuple(self._all(detail.task, caller))
        best, default = (
            None if one is None else self._experiments.find(one.id, caller)
            for one in self._sense().best_and_default(detail, summaries)
        )
        return self._sense().findings(detail, summaries, best, default)

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
