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
from corral.api.requests.reading import read_body, read_object, read_query
from corral.api.requests.shapes import MAX_PAGE
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer
from corral.core.access.caller import Caller
from corral.core.model.errors import NotFound
from corral.features.tuner.bodies import MAX_MEASURED_PAGE
from corral.features.tuner.experiment_access import ExperimentAccess
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.other_names import bodies, translation
from corral.features.tuner.other_names.answers import AutotunerExperiment, AutotunerTask, AutotunerTaskRow
from corral.features.tuner.other_names.translation import with_defaults
from corral.features.tuner.task_access import TaskAccess
from corral.features.tuner.task_bounds import within
from corral.wire import MAX_INTEGER, from_plain

router = RouteTable("autotuner, by other names", prefix="/api")


@router.get("/tasks")
@router.get("/tasks/", query=bodies.AutotunerTasksQuery, answers=gives_many(AutotunerTaskRow))
async def tasks(request: Request, context: RequestContext) -> Response:
    """List tasks, newest first."""
    return await answer(_listed, context.of(TaskAccess), read_query(request, bodies.AutotunerTasksQuery))


@router.post("/tasks")
@router.post("/tasks/", takes=Body(TuningSpec), answers=gives(AutotunerTask, status=201))
async def create(request: Request, context: RequestContext) -> Response:
    """Store a task. Defaults: `deployment_mode` docker, `gpu_wait_timeout_s` 300."""
    spec = from_plain(TuningSpec, with_defaults(await read_object(request)))
    created = partial(context.of(TaskAccess).create, spec, context.caller)
    return await answer(_task_after, context.of(TaskAccess), created, context.caller, status=201)


@router.get("/tasks/name/{task_name:path}", answers=gives(AutotunerTask))
async def task_by_name(request: Request, context: RequestContext, task_name: str) -> Response:
    """Tell of the newest task of this name."""
    return await answer(_of_name, context.of(TaskAccess), task_name, context.caller)


@router.get("/tasks/{task_id}", answers=gives(AutotunerTask))
async def task(request: Request, context: RequestContext, task_id: str) -> Response:
    """Show a task with its configuration."""
    return await answer(_task, context.of(TaskAccess), task_id, context.caller)


@router.put("/tasks/{task_id}", takes=Body(TuningSpec), answers=gives(AutotunerTask))
async def replace_task(request: Request, context: RequestContext, task_id: str) -> Response:
    """Have a task that does not run ask for something else."""
    spec = from_plain(TuningSpec, with_defaults(await read_object(request)))
    return await _edited(context, task_id, lambda _: spec)


@router.patch("/tasks/{task_id}", takes=Body(bodies.AutotunerTaskUpdate), answers=gives(AutotunerTask))
async def describe_task(request: Request, context: RequestContext, task_id: str) -> Response:
    """Say something else of a task that does not run."""
    wanted = await read_body(request, bodies.AutotunerTaskUpdate)
    return await _edited(context, task_id, lambda spec: replace(spec, description=wanted.description))


@router.delete("/tasks/{task_id}", answers=gives_nothing("The task is gone."))
async def delete(request: Request, context: RequestContext, task_id: str) -> Response:
    """Delete a task that does not run, and its experiments."""
    await on_worker(context.of(TaskAccess).delete, task_id, context.caller)
    return Response(status_code=204)


@router.post("/tasks/{task_id}/start", answers=gives(AutotunerTask))
async def start(request: Request, context: RequestContext, task_id: str) -> Response:
    """Start a task. A task that failed or was cancelled continues where it was."""
    return await _acted(context, task_id, context.of(TaskAccess).start)


@router.post("/tasks/{task_id}/cancel", answers=gives(AutotunerTask))
async def cancel(request: Request, context: RequestContext, task_id: str) -> Response:
    """Let no more experiments of a task begin, and stop those that run."""
    return await _acted(context, task_id, context.of(TaskAccess).cancel)


@router.post("/tasks/{task_id}/restart", answers=gives(AutotunerTask))
async def restart(request: Request, context: RequestContext, task_id: str) -> Response:
    """Delete the experiments of a task that does not run, and start it again."""
    return await _acted(context, task_id, context.of(TaskAccess).restart)


@router.post("/tasks/{task_id}/clear", answers=gives(AutotunerTask))
async def clear(request: Request, context: RequestContext, task_id: str) -> Response:
    """Delete the experiments of a task that does not run."""
    return await _acted(context, task_id, context.of(TaskAccess).clear)


@router.get("/experiments")
@router.get(
    "/experiments/",
    query=bodies.AutotunerPageQuery,
    answers=gives_many(AutotunerExperiment),
)
async def experiments(request: Request, context: RequestContext) -> Response:
    """List the experiments of all tasks, by task and number."""
    query = _page_asked_for(request)
    return await answer(
        _all_experiments, context.of(TaskAccess), context.of(ExperimentAccess), context.caller, query.skip, query.limit
    )


@router.get(
    "/experiments/task/{task_id}",
    query=bodies.AutotunerPageQuery,
    answers=gives_many(AutotunerExperiment),
)
async def experiments_of_task(request: Request, context: RequestContext, task_id: str) -> Response:
    """List the experiments of a task by number."""
    query = _page_asked_for(request)
    return await answer(_experiments_of, context.of(ExperimentAccess), context.caller, task_id, query.skip, query.limit)


@router.get("/experiments/{experiment_id}", answers=gives(AutotunerExperiment))
async def experiment(request: Request, context: RequestContext, experiment_id: str) -> Response:
    """Tell of an experiment."""
    found = context.of(ExperimentAccess).find
    return await answer(lambda: translation.experiment(found(experiment_id, context.caller)))


def _page_asked_for(request: Request) -> bodies.AutotunerPageQuery:
    query = read_query(request, bodies.AutotunerPageQuery)
    within("skip", query.skip, 0, MAX_INTEGER)
    within("limit", query.limit, 1, MAX_MEASURED_PAGE)
    return query


def _listed(tasks: TaskAccess, query: bodies.AutotunerTasksQuery) -> list[AutotunerTaskRow]:
    within("skip", query.skip, 0, MAX_INTEGER)
    within("limit", query.limit, 1, MAX_PAGE)
    rows = [row for row in tasks.tasks().tasks if query.status_filter in (None, row.status)]
    return [translation.task_row(row) for row in rows[query.skip :][: query.limit]]


def _task(tasks: TaskAccess, task_id: str, caller: Caller) -> AutotunerTask:
    return translation.task(tasks.task(task_id, caller))


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
    return [translation.experiment(row) for row in page.experiments]


async def _acted(context: RequestContext, task_id: str, act: Callable[[str, Caller], Any]) -> Response:
    return await answer(_task_after, context.of(TaskAccess), partial(act, task_id, context.caller), context.caller)


async def _edited(context: RequestContext, task_id: str, edit: Callable[[TuningSpec], TuningSpec]) -> Response:
    tasks = context.of(TaskAccess)
    return await answer(_task_after, tasks, partial(tasks.edit, task_id, edit, context.caller), context.caller)
