"""Routes about tasks of the autotuner and their experiments. The tuner and people use the same routes."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from corral.api.answers.responses import gives, gives_log
from corral.api.requests.reading import read_body, read_query
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer
from corral.features.tuner import bodies
from corral.features.tuner.answers import ExperimentList, ExperimentRow, TaskDetail, TaskList, TaskRow
from corral.features.tuner.experiment_access import MOST_METRICS_BYTES, ExperimentAccess
from corral.features.tuner.followed_log import followed_task_log, task_log
from corral.features.tuner.model.experiment import ExperimentChange
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.task_access import TaskAccess

router = RouteTable("autotuner")


@router.get("/tasks", answers=gives(TaskList))
async def tasks(request: Request, context: RequestContext) -> Response:
    """List the tasks of the autotuner, newest first."""
    return await answer(context.of(TaskAccess).tasks)


@router.post("/tasks", takes=Body(TuningSpec), answers=gives(TaskRow, status=201))
async def create(request: Request, context: RequestContext) -> Response:
    """Write down a task. It begins when it is started."""
    spec = await read_body(request, TuningSpec)
    return await answer(context.of(TaskAccess).create, spec, context.caller, status=201)


@router.get("/tasks/{task_id}", answers=gives(TaskDetail))
async def task(request: Request, context: RequestContext, task_id: str) -> Response:
    """Show a task with its configuration."""
    return await answer(context.of(TaskAccess).task, task_id, context.caller)


@router.get(
    "/tasks/{task_id}/logs",
    query=bodies.TaskLogQuery,
    answers=gives_log("text/plain", {"type": "string"}),
)
async def logs(request: Request, context: RequestContext, task_id: str) -> Response:
    """Send the events of a task and its experiments, a line each; with `follow` until the task no longer runs."""
    if read_query(request, bodies.TaskLogQuery).follow:
        return await followed_task_log(request, context.caller, task_id)
    lines = await on_worker(task_log, context.offers, task_id, context.caller)
    return PlainTextResponse("".join(f"{line}\n" for line in lines))


@router.put("/tasks/{task_id}", takes=Body(TuningSpec), answers=gives(TaskRow))
async def edit(request: Request, context: RequestContext, task_id: str) -> Response:
    """Change a task that does not run. Once it has experiments, only its name and description can change."""
    spec = await read_body(request, TuningSpec)
    return await answer(context.of(TaskAccess).edit, task_id, lambda _: spec, context.caller)


@router.delete("/tasks/{task_id}", answers=gives(TaskRow))
async def delete(request: Request, context: RequestContext, task_id: str) -> Response:
    """Forget a task that does not run, and its experiments; the answer is the task as it was."""
    return await answer(context.of(TaskAccess).delete, task_id, context.caller)


@router.post("/tasks/{task_id}/start", answers=gives(TaskRow))
async def start(request: Request, context: RequestContext, task_id: str) -> Response:
    """Start a task. A task that failed or was cancelled continues where it was."""
    return await answer(context.of(TaskAccess).start, task_id, context.caller)


@router.post("/tasks/{task_id}/cancel", answers=gives(TaskRow))
async def cancel(request: Request, context: RequestContext, task_id: str) -> Response:
    """Let no more experiments of a task begin, and stop those that run."""
    return await answer(context.of(TaskAccess).cancel, task_id, context.caller)


@router.post("/tasks/{task_id}/restart", answers=gives(TaskRow))
async def restart(request: Request, context: RequestContext, task_id: str) -> Response:
    """Delete the experiments of a task that does not run, and start it again."""
    return await answer(context.of(TaskAccess).restart, task_id, context.caller)


@router.post("/tasks/{task_id}/clear", answers=gives(TaskRow))
async def clear(request: Request, context: RequestContext, task_id: str) -> Response:
    """Delete the experiments of a task that does not run."""
    return await answer(context.of(TaskAccess).clear, task_id, context.caller)


@router.post("/tasks/{task_id}/plan", takes=Body(bodies.TaskPlan), answers=gives(TaskRow))
async def plan(request: Request, context: RequestContext, task_id: str) -> Response:
    """Note how many experiments a task makes at most, as its tuner does."""
    wanted = await read_body(request, bodies.TaskPlan)
    return await answer(context.of(TaskAccess).plan, task_id, wanted.experiments, context.caller)


@router.post("/tasks/{task_id}/end", takes=Body(bodies.TaskOutcome), answers=gives(TaskRow))
async def end(request: Request, context: RequestContext, task_id: str) -> Response:
    """Note that a task has completed or failed, as its tuner does."""
    wanted = await read_body(request, bodies.TaskOutcome)
    return await answer(context.of(TaskAccess).end, task_id, wanted.status, wanted.error_message, context.caller)


@router.get("/experiments", query=bodies.ExperimentsQuery, answers=gives(ExperimentList))
async def experiments(request: Request, context: RequestContext) -> Response:
    """List the experiments of a task by number, a page at a time; with metrics of 32 MiB at most."""
    query = read_query(request, bodies.ExperimentsQuery)
    return await answer(
        context.of(ExperimentAccess).of_task,
        query.task,
        context.caller,
        after=query.after,
        limit=query.limit,
        metrics=query.metrics,
    )


@router.post(
    "/experiments",
    takes=Body(bodies.NewExperiment),
    answers=gives(ExperimentRow, status=201),
)
async def create_experiment(request: Request, context: RequestContext) -> Response:
    """Write down the next experiment of a running task, as its tuner does."""
    wanted = await read_body(request, bodies.NewExperiment)
    return await answer(context.of(ExperimentAccess).create, wanted, context.caller, status=201)


@router.get("/experiments/{experiment_id}", answers=gives(ExperimentRow))
async def experiment(request: Request, context: RequestContext, experiment_id: str) -> Response:
    """Tell of an experiment, with its metrics."""
    return await answer(context.of(ExperimentAccess).find, experiment_id, context.caller)


@router.patch(
    "/experiments/{experiment_id}",
    takes=Body(ExperimentChange, most_bytes=2 * MOST_METRICS_BYTES),
    answers=gives(ExperimentRow),
)
async def change_experiment(request: Request, context: RequestContext, experiment_id: str) -> Response:
    """Note how an experiment stands, as its tuner does. One that is over stays as it is."""
    change = await read_body(request, ExperimentChange)
    return await answer(context.of(ExperimentAccess).change, experiment_id, change, context.caller)
