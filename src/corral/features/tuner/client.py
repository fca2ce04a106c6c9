"""Tasks of the autotuner and their experiments: create, follow and change them."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from corral.client.connecting.transport import Transport
from corral.client.submitting.arguments import flag, mapping, optional, text, whole, wrong
from corral.core.model.errors import NotFound
from corral.wire import from_answer, to_plain

if TYPE_CHECKING:
    from corral.features.tuner.answers import ExperimentRow, TaskDetail, TaskRow
    from corral.features.tuner.finding_answers import ServingPlan, TaskEstimate

_ID = "'17'"
_LINE = b"data: "
PAGE = 1000
"""The most experiments that one request lists."""


class TuningTasks:
    """Creates tasks of the autotuner, and starts and ends them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> "tuple[TaskRow, ...]":
        """All tasks, newest first."""
        from corral.features.tuner.answers import TaskList

        return from_answer(TaskList, self._transport.get("/tasks")).tasks

    def get(self, task_id: str) -> "TaskDetail":
        """A task with its specification."""
        from corral.features.tuner.answers import TaskDetail

        return from_answer(TaskDetail, self._transport.get(_task(task_id)))

    def logs(self, task_id: str, *, follow: bool = False) -> Iterator[str]:
        """The log of the task and its experiments, line by line. With `follow`, until nothing of it runs any more.

        Raises NoServer if it breaks off before.
        """
        wanted = flag(follow, "follow")
        rest = b""
        for block in self._transport.stream(f"{_task(task_id)}/logs", follow=wanted or None):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                if not wanted:
                    yield line.decode()
                elif line.startswith(_LINE) and line != _LINE:
                    yield line.removeprefix(_LINE).decode()

    def create(self, spec: Mapping[str, Any]) -> "TaskRow":
        """Create a task from a specification, which has the content of a task file. The task begins with `start`."""
        from corral.features.tuner.answers import TaskRow

        return from_answer(TaskRow, self._transport.post("/tasks", _spec(spec)))

    def estimate(self, spec: Mapping[str, Any]) -> "TaskEstimate":
        """The most that a task would take. It is not created."""
        from corral.features.tuner.finding_answers import TaskEstimate

        return from_answer(TaskEstimate, self._transport.post("/tasks/estimate", _spec(spec)))

    def edit(self, task_id: str, spec: Mapping[str, Any]) -> "TaskRow":
        """Change the specification. It must not run. After its first experiment only name and description change."""
        from corral.features.tuner.answers import TaskRow

        return from_answer(TaskRow, self._transport.put(_task(task_id), _spec(spec)))

    def start(self, task_id: str) -> "TaskRow":
        """Start the task. A task that failed or was cancelled continues where it stopped."""
        return self._act(task_id, "start")

    def cancel(self, task_id: str) -> "TaskRow":
        """Begin no more of its experiments, and stop those that run."""
        return self._act(task_id, "cancel")

    def restart(self, task_id: str) -> "TaskRow":
        """Delete its experiments and start again. The task must not run."""
        return self._act(task_id, "restart")

    def clear(self, task_id: str) -> "TaskRow":
        """Delete its experiments. The task must not run."""
        return self._act(task_id, "clear")

    def delete(self, task_id: str) -> "TaskRow":
        """Delete the task with its experiments. It must not run. Returns the deleted task."""
        from corral.features.tuner.answers import TaskRow

        return from_answer(TaskRow, self._transport.delete(_task(task_id)))

    def plan(self, task_id: str, experiments: int) -> "TaskRow":
        """Record the most experiments that the task will make. Its tuner calls this."""
        return self._act(task_id, "plan", {"experiments": whole(experiments, "experiments")})

    def end(self, task_id: str, status: str, error_message: str | None = None) -> "TaskRow":
        """Record that the task has "completed" or "failed". Its tuner calls this."""
        body = {
            "status": text(status, "status", "'completed'"),
            "error_message": optional(text, error_message, "error_message", "'no GPUs'"),
        }
        return self._act(task_id, "end", body)

    def _act(self, task_id: str, verb: str, body: Any = None) -> "TaskRow":
        from corral.features.tuner.answers import TaskRow

        return from_answer(TaskRow, self._transport.post(f"{_task(task_id)}/{verb}", body))


class Experiments:
    """Lists the experiments of tasks. The tuner creates and changes them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, task_id: str, *, metrics: bool = False) -> "tuple[ExperimentRow, ...]":
        """All experiments of a task by number; with their metrics if `metrics` is set."""
        from corral.features.tuner.answers import ExperimentList

        wanted, task = flag(metrics, "metrics"), text(task_id, "task_id", _ID)
        found: list[ExperimentRow] = []
        while True:
            after = found[-1].experiment_id if found else 0
            page = self._transport.get("/experiments", task=task, after=after, limit=PAGE, metrics=wanted)
            rows = from_answer(ExperimentList, page).experiments
            found += rows
            # With metrics, a page may hold fewer experiments, because they are large.
            if not rows if metrics else len(rows) < PAGE:
                return tuple(found)

    def serving(self, task_id: str, experiment: int | None = None) -> "ServingPlan":
        """How to serve the model as the best experiment did, or the one with this number.

        Raises Conflict if that did not succeed.
        """
        from corral.features.tuner.finding_answers import ServingPlan

        number = optional(whole, experiment, "experiment")
        return from_answer(ServingPlan, self._transport.get(f"{_task(task_id)}/serving", experiment=number))

    def of_number(self, task_id: str, number: int) -> "ExperimentRow":
        """The experiment of a task with this number, without its metrics. Raises NotFound."""
        from corral.features.tuner.answers import ExperimentList

        task, wanted = text(task_id, "task_id", _ID), whole(number, "number")
        page = self._transport.get("/experiments", task=task, after=max(0, wanted - 1), limit=1)
        for row in from_answer(ExperimentList, page).experiments:
            if row.experiment_id == wanted:
                return row
        raise NotFound(f"task {task} has no experiment {wanted}; `corral experiments {task}` lists them")

    def get(self, experiment_id: str) -> "ExperimentRow":
        """An experiment with its metrics."""
        from corral.features.tuner.answers import ExperimentRow

        return from_answer(ExperimentRow, self._transport.get(_experiment(experiment_id)))

    def create(
        self,
        task_id: str,
        number: int,
        parameters: Mapping[str, Any],
        search_state: Mapping[str, Any] | None = None,
        repeats: int | None = None,
    ) -> "ExperimentRow":
        """Create the next experiment of a task. Raises Conflict if `number` is not the next.

        `repeats` is the number of the experiment that it measures again.
        """
        from corral.features.tuner.answers import ExperimentRow

        body = {
            "task_id": text(task_id, "task_id", _ID),
            "experiment_id": whole(number, "number"),
            "parameters": dict(mapping(parameters, "parameters", "{'tp-size': 2}")),
            "search_state": dict(optional(mapping, search_state, "search_state", "{}") or {}),
            "repeats": optional(whole, repeats, "repeats", "3"),
        }
        return from_answer(ExperimentRow, self._transport.post("/experiments", body))

    def change(self, experiment_id: str, **changes: Any) -> "ExperimentRow":
        """Change the experiment: fields of `ExperimentChange`. Raises Conflict if it is over."""
        from corral.features.tuner.answers import ExperimentRow

        body = {name: _plain(value, name) for name, value in changes.items()}
        return from_answer(ExperimentRow, self._transport.patch(_experiment(experiment_id), body))


def _spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification with lists where an option of jobs may also be a single text."""
    from corral.core.model.field import Kind
    from corral.declared.option_fields import options
    from corral.features.tuner.model.tuning_spec import GPU_OPTIONS

    given = mapping(spec, "spec", "{'task_name': 'llama', ...}")
    lists = [name for name in GPU_OPTIONS if options()[name].kind is Kind.TEXTS and isinstance(given.get(name), str)]
    return {**given, **{name: [given[name]] for name in lists}}


def _plain(value: Any, field: str) -> Any:
    try:
        return to_plain(value)
    except TypeError:
        raise wrong(value, field, "a plain value", "'running'") from None


def _task(task_id: str) -> str:
    return f"/tasks/{_part(task_id, 'task', 'corral tasks')}"


def _experiment(experiment_id: str) -> str:
    return f"/experiments/{_part(experiment_id, 'experiment', 'corral experiments TASK')}"


def _part(name: str, kind: str, lists: str) -> str:
    """An id as a part of a path. Raises NotFound for text that is no single part, which no id is."""
    wanted = text(name, f"{kind}_id", _ID)
    if not wanted or "/" in wanted:
        raise NotFound(f"there is no {kind} {wanted!r:.60}; `{lists}` lists them", field=f"{kind}_id")
    return quote(wanted, safe="")
