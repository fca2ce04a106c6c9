"""Streams for the clients of another autotuner: WebSockets for tasks and experiments, logs as Server-Sent Events."""

from collections.abc import AsyncIterator, Callable

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from corral.api.answers.errors import response_to
from corral.api.answers.responses import gives_log
from corral.api.events.event_stream import EventStream
from corral.api.requests import shapes
from corral.api.requests.origins import must_be_of_no_other_page
from corral.api.requests.reading import read_query
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import RouteTable
from corral.api.routes.event_routes import reader, serve
from corral.api.routes.log_routes import log_chunks
from corral.api.routing import AppState, RequestContext, json_response
from corral.core.access.caller import Caller
from corral.core.model.errors import CorralError, NotFound
from corral.features.tuner.answers import ExperimentRow
from corral.features.tuner.bodies import TaskLogQuery
from corral.features.tuner.experiment_access import ExperimentAccess
from corral.features.tuner.followed_log import TOPICS, event_response, followed_task_log, lines_of, task_log
from corral.features.tuner.other_names import translation
from corral.features.tuner.other_names.event_translation import AutotunerMessages
from corral.features.tuner.task_access import TaskAccess
from corral.wire import to_plain

router = RouteTable("autotuner, by other names", prefix="/api")

MOST_LINES = 10_000
MOST_LOG_BYTES = 4 << 20
"""The most bytes of a job's log in one answer. A log that is followed has no limit."""

_LOGS = {"type": "object", "properties": {"logs": {"type": "string"}}, "required": ["logs"]}


@router.websocket("/ws/tasks/{task_id}")
async def task_socket(websocket: WebSocket, task_id: str) -> None:
    """Send the events of a task and its experiments."""
    state: AppState = websocket.app.state.corral

    def known(caller: Caller) -> AutotunerMessages:
        detail = state.offers.of(TaskAccess).task(task_id, caller)
        return AutotunerMessages(task_id, to_plain(translation.task_row(detail.task)))

    await _followed(websocket, known)


@router.websocket("/ws/experiments/{experiment_id}")
async def experiment_socket(websocket: WebSocket, experiment_id: str) -> None:
    """Send the events of an experiment."""
    state: AppState = websocket.app.state.corral

    def known(caller: Caller) -> AutotunerMessages:
        row = state.offers.of(ExperimentAccess).find(experiment_id, caller)
        told = to_plain(translation.experiment(row))
        return AutotunerMessages(row.task_id, told, (row.id, row.experiment_id))

    await _followed(websocket, known)


@router.get("/tasks/{task_id}/logs", query=TaskLogQuery,
            answers=gives_log("application/json", _LOGS))  # fmt: skip
async def logs(request: Request, context: RequestContext, task_id: str) -> Response:
    """Send the events of a task and its experiments, a line each; with `follow` until the task no longer runs."""
    if read_query(request, TaskLogQuery).follow:
        return await followed_task_log(request, context.caller, task_id)
    lines = await on_worker(task_log, context.offers, task_id, context.caller)
    return json_response({"logs": "".join(f"{line}\n" for line in lines)})


@router.get("/tasks/{task_id}/experiments/{number}/logs", query=TaskLogQuery,
            answers=gives_log("application/json", _LOGS))  # fmt: skip
async def experiment_logs(request: Request, context: RequestContext, task_id: str, number: str) -> Response:
    """Send the output of the server of an experiment: its end, or with `follow` all of it until its job has ended."""
    follow = read_query(request, TaskLogQuery).follow
    row = await on_worker(context.of(ExperimentAccess).of_number, task_id, number, context.caller)
    job_id = _job_of(row)
    if follow:
        return await event_response(request, lines_of(await log_chunks(context, job_id, shapes.LogQuery(follow=True))))
    chunks = await log_chunks(context, job_id, shapes.LogQuery(tail=MOST_LINES))
    return json_response({"logs": (await _end_of(chunks)).decode(errors="replace")})


async def _followed(websocket: WebSocket, known: Callable[[Caller], AutotunerMessages]) -> None:
    """Send a client its first message, then all later events."""
    state: AppState = websocket.app.state.corral

    async def allowed() -> None:
        await _reader(state, websocket)

    try:
        caller = await _reader(state, websocket)
        with state.events.client(caller.user, TOPICS):
            place = state.events.last
            messages = await on_worker(known, caller)
            await websocket.accept()
            stream = EventStream(state.events, caller.user, TOPICS, place, allowed)
            await serve(websocket, stream, messages.of_batch, deaf=True)
    except CorralError as error:
        await websocket.send_denial_response(response_to(error))


async def _reader(state: AppState, connection: HTTPConnection) -> Caller:
    must_be_of_no_other_page(connection)
    return await reader(state, connection)


def _job_of(row: ExperimentRow) -> str:
    if row.job_id is None:
        raise NotFound(f"experiment {row.experiment_id} is {row.status} without a job, so it has no log")
    return row.job_id


async def _end_of(chunks: AsyncIterator[bytes]) -> bytes:
    found = b""
    async for chunk in chunks:
        found = (found + chunk)[-MOST_LOG_BYTES:]
    return found
