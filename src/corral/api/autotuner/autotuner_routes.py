"""The paths and fields of another autotuner, for its clients, over the use cases that /api/v1 has.

No decision is made here. Each route reads a request in that autotuner's terms, calls the same code as /api/v1, and
translates the answer.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives, gives_many, gives_nothing
from corral.api.autotuner import autotuner_answers
from corral.api.autotuner.autotuner_answers import with_defaults
from corral.api.requests import shapes, tuning_shapes
from corral.api.requests.reading import read_body, read_object, read_query
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import Body, RouteTable
from corral.api.routing import AppState, RequestContext, answer
from corral.core.access.caller import Caller
from corral.core.control.tuning.experiment_access import ExperimentAccess
from corral.core.control.tuning.task_access import TaskAccess
from corral.core.control.tuning.task_checks import within
from corral.core.model.answers.autotuner import AutotunerExperiment, AutotunerTask, AutotunerTaskRow
from corral.core.model.errors import NotFound
from corral.core.model.tuning.tuning_spec import TuningSpec
from corral.wire import MAX_INTEGER, from_plain

router = RouteTable("autotuner, by other names")


@router.get("/tasks")
@router.get("/tasks/", query=tuning_shapes.AutotunerTasksQuery, answers=gives_many(AutotunerTaskRow))
async def tasks(request: Request, context: RequestContext) -> Response:
    """List tasks, newest first."""
    return await answer(_listed, _tasks(request), read_query(request, tuning_shapes.AutotunerTasksQuery))


@router.post("/tasks")
@router.post("/tasks/", takes=Body(TuningSpec), answers=gives(AutotunerTask, status=201))
async def create(request: Request, context: RequestContext) -> Response:
    """Store a task. Defaults: `deployment_mode` docker, `gpu_wait_timeout_s` 300."""
    spec = from_plain(TuningSpec, with_defaults(await read_object(request)))
    created = partial(_tasks(request).create, spec, context.caller)
    return await answer(_task_after, _tasks(request), created, context.caller, status=201)


@router.get("/tasks/name/{task_name:path}", answers=gives(AutotunerTask))
async def task_by_name(request: Request, context: RequestContext, task_name: str) -> Response:
    """Tell of the newest task of this name."""
    return await answer(_of_name, _tasks(request), task_name, context.caller)


@router.get("/tasks/{task_id}", answers=gives(AutotunerTask))
async def task(request: Request, context: RequestContext, task_id: str) -> Response:
    """Show a task with its configuration."""
    return await answer(_task, _tasks(request), task_id, context.caller)


@router.put("/tasks/{task_id}", takes=Body(TuningSpec), answers=gives(AutotunerTask))
async def replace_task(request: Request, context: RequestContext, task_id: str) -> Response:
    """Have a task that does not run ask for something else."""
    spec = from_plain(TuningSpec, with_defaults(await read_object(request)))
    return await _edited(request, context.caller, task_id, lambda _: spec)


@router.patch("/tasks/{task_id}", takes=Body(tuning_shapes.AutotunerTaskUpdate), answers=gives(AutotunerTask))
async def describe_task(request: Request, context: RequestContext, task_id: str) -> Response:
    """Say something else of a task that does not run."""
    wanted = await read_body(request, tuning_shapes.AutotunerTaskUpdate)
    return await _edited(request, context.caller, task_id, lambda spec: replace(spec, description=wanted.description))


@router.delete("/tasks/{task_id}", answers=gives_nothing("The task is gone."))
async def delete(request: Request, context: RequestContext, task_id: str) -> Response:
    """Delete a task that does not run, and its experiments."""
    await on_worker(_tasks(request).delete, task_id, context.caller)
    return Response(status_code=204)


@router.post("/tasks/{task_id}/start", answers=gives(AutotunerTask))
async def start(request: Request, context: RequestContext, task_id: str) -> Response:
    """Start a task. A task that failed or was cancelled continues where it was."""
    return await _acted(request, context.caller, task_id, _tasks(request).start)


@router.post("/tasks/{task_id}/cancel", answers=gives(AutotunerTask))
async def cancel(request: Request, context: RequestContext, task_id: str) -> Response:
    """Let no more experiments of a task begin, and stop those that run."""
    return await _acted(request, context.caller, task_id, _tasks(request).cancel)


@router.post("/tasks/{task_id}/restart", answers=gives(AutotunerTask))
async def restart(request: Request, context: RequestContext, task_id: str) -> Response:
    """Delete the experiments of a task that does not run, and start it again."""
    return await _acted(request, context.caller, task_id, _tasks(request).restart)


@router.post("/tasks/{task_id}/clear", answers=gives(AutotunerTask))
async def clear(request: Request, context: RequestContext, task_id: str) -> Response:
    """Delete the experiments of a task that does not run."""
    return await _acted(request, context.caller, task_id, _tasks(request).clear)


@router.get("/experiments")
@router.get(
    "/experiments/",
    query=tuning_shapes.AutotunerPageQuery,
    answers=gives_many(AutotunerExperiment),
)
async def experiments(request: Request, context: RequestContext) -> Response:
    """List the experiments of all tasks, by task and number."""
    query = _page_asked_for(request)
    return await answer(
        _all_experiments, _tasks(request), _experiments(request), context.caller, query.skip, query.limit
    )


@router.get(
    "/experiments/task/{task_id}",
    query=tuning_shapes.AutotunerPageQuery,
    answers=gives_many(AutotunerExperiment),
)
async def experiments_of_task(request: Request, context: RequestContext, task_id: str) -> Response:
    """List the experiments of a task by number."""
    query = _page_asked_for(request)
    return await answer(_experiments_of, _experiments(request), context.caller, task_id, query.skip, query.limit)


@router.get("/experiments/{experiment_id}", answers=gives(AutotunerExperiment))
async def experiment(request: Request, context: RequestContext, experiment_id: str) -> Response:
    """Tell of an experiment."""
    found = _experiments(request).find
    return await answer(lambda: autotuner_answers.experiment(found(experiment_id, context.caller)))


def _page_asked_for(request: Request) -> tuning_shapes.AutotunerPageQuery:
    query = read_query(request, tuning_shapes.AutotunerPageQuery)
    within("skip", query.skip, 0, MAX_INTEGER)
    within("limit", query.limit, 1, tuning_shapes.MAX_MEASURED_PAGE)
    return query


def _listed(tasks: TaskAccess, query: tuning_shapes.AutotunerTasksQuery) -> list[AutotunerTaskRow]:
    within("skip", query.skip, 0, MAX_INTEGER)
    within("limit", query.limit, 1, shapes.MAX_PAGE)
    rows = [row for row in tasks.tasks().tasks if query.status_filter in (None, row.status)]
    return [autotuner_answers.task_row(row) for row in rows[query.skip :][: query.limit]]


def _task(tasks: TaskAccess, task_id: str, caller: Caller) -> AutotunerTask:
    return autotuner_answers.task(tasks.task(task_id, caller))


def _task_after(tasks: TaskAccess, act: Callable[[], Any], caller: Caller) -> AutotunerTask:
    return _task(tasks, act().id, caller)


def _of_name(tasks: TaskAccess, name: str, caller: Caller) -> AutotunerTask:
    for row in tasks.tasks().tasks:
        if row.task_name == name:
            return _task(tasks, row.id, caller)
    raise NotFound(f"there is no task of the name {name!r:.80}; GET /api/tasks/ lists them", field="task_name")


def _all_experiments(
    tasks: TaskAccess, experiments: ExperimentAccess, caller: Caller, skip: int, limit: int
) -> list[AutotunerExperiment]:
    found: list[AutotunerExperiment] = []
    for row in reversed(tasks.tasks().tasks):
        if skip < row.total_experiments:
            page = _experiments_of(experiments, caller, row.id, skip, limit - len(found))
            found += page
            if len(found) == limit or skip + len(page) < row.total_experiments:
                # A page with large metrics ends early. The next page begins there.
                break
        skip = max(0, skip - row.total_experiments)
    return found


def _experiments_of(
    experiments: ExperimentAccess, caller: Caller, task_id: str, skip: int, limit: int
) -> list[AutotunerExperiment]:
    # Numbers have no gaps, so the experiments after the tenth are those with numbers above ten.
    page = experiments.of_task(task_id, caller, after=skip, limit=limit, metrics=True)
    return [autotuner_answers.experiment(row) for row in page.experiments]


async def _acted(request: Request, caller: Caller, task_id: str, act: Callable[[str, Caller], Any]) -> Response:
    return await answer(_task_after, _tasks(request), partial(act, task_id, caller), caller)


async def _edited(request: Request, caller: Caller, task_id: str, edit: Callable[[TuningSpec], TuningSpec]) -> Response:
    act = partial(_tasks(request).edit, task_id, edit, caller)
    return await answer(_task_after, _tasks(request), act, caller)


def _tasks(request: Request) -> TaskAccess:
    state: AppState = request.app.state.corral
    return state.tasks


def _experiments(request: Request) -> ExperimentAccess:
    state: AppState = request.app.state.corral
    return state.experiments
