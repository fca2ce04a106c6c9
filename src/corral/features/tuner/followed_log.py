"""The logs of tasks and experiments as lines, and as Server-Sent Events that follow them."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.streams import BrokenOff, PiecewiseResponse
from corral.api.events.event_stream import EventStream
from corral.api.offers import Offers
from corral.api.requests.user_threads import on_worker
from corral.api.routes.event_routes import CONTENT_TYPE, reader
from corral.api.routing import AppState
from corral.core.access.caller import Caller
from corral.core.model.errors import CorralError
from corral.features.tuner.bodies import MAX_MEASURED_PAGE
from corral.features.tuner.experiment_access import ExperimentAccess
from corral.features.tuner.task_access import TaskAccess
from corral.features.tuner.task_log import Row, TaskLog
from corral.wire import to_plain

TOPICS = ("tasks",)

END_ID = "end"
"""A browser reconnects when a stream ends. If this is the last id that it has read, the answer tells it to stop."""

LONGEST_LINE = 16 * 1024
"""A longer line of a job is sent in several parts."""

_HEADERS = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
_ALIVE = b": alive\n\n"
_END = b"id: %b\nevent: end\ndata: \n\n" % END_ID.encode()


def task_log(offers: Offers, task_id: str, caller: Caller) -> list[str]:
    """All lines of a task's log. Raises NotFound."""
    return TaskLog(task_id).of_records(*_records(offers, task_id, caller))


async def followed_task_log(request: Request, caller: Caller, task_id: str) -> Response:
    """A task's log, each line as an event, until nothing of the task runs. Raises NotFound; Busy at the limit."""
    return await event_response(request, _lines(request, caller, task_id))


async def event_response(request: Request, lines: AsyncGenerator[list[str]]) -> Response:
    """Lines as Server-Sent Events, sent as they come. Raises the errors that occur before the first lines."""
    if request.headers.get("last-event-id") == END_ID:
        await lines.aclose()
        return Response(status_code=204)
    first: list[str] = await anext(lines, [])

    async def frames() -> AsyncIterator[bytes]:
        async with aclosing(lines):
            yield framed(first)
            async for some in lines:
                yield framed(some)
        yield _END

    return PiecewiseResponse(frames(), media_type=CONTENT_TYPE, headers=_HEADERS)


def framed(lines: Iterable[str]) -> bytes:
    """Lines without line breaks as Server-Sent Events. Without lines, a comment that keeps the connection alive."""
    return b"".join(b"data: %b\n\n" % line.encode() for line in lines) or _ALIVE


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncGenerator[list[str]]:
    """Yield a job's output in lines. A carriage return ends a line, too: it would end one of the event stream."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if len(rest) > LONGEST_LINE:
            whole, rest = [*whole, rest], b""
        if whole:
            yield [line.decode(errors="replace") for line in whole]
    if rest:
        yield [rest.decode(errors="replace")]


async def _lines(request: Request, caller: Caller, task_id: str) -> AsyncGenerator[list[str]]:
    """Yield the lines of a task's log as they come, and an empty list if there is nothing new.

    The place in the journal is taken before the records are read, so nothing is missed. Repeated information is sent
    once.
    """
    state: AppState = request.app.state.corral

    async def allowed() -> None:
        await reader(state, request)

    with state.events.client(caller.user, TOPICS):
        log, place = TaskLog(task_id), state.events.last
        yield log.of_records(*await on_worker(_records, state.offers, task_id, caller))
        stream = EventStream(state.events, caller.user, TOPICS, place, allowed)
        try:
            async with aclosing(stream.batches()) as batches:
                while not log.ended:
                    batch = await anext(batches)
                    lines: list[str] = []
                    for event in batch.events_of(stream.topics):
                        if event.topic == "reset":
                            lines += log.of_records(*await on_worker(_records, state.offers, task_id, caller))
                        elif event.topic in TOPICS:
                            lines += log.of_event(json.loads(event.data))
                    yield lines
        except (CorralError, StopAsyncIteration):
            # The server stops, the token has expired, or the task is gone. A client that asks again gets the reason.
            raise BrokenOff from None


def _records(offers: Offers, task_id: str, caller: Caller) -> tuple[Row, list[Row]]:
    task = to_plain(offers.of(TaskAccess).task(task_id, caller).task)
    experiments, rows = offers.of(ExperimentAccess), list[Row]()
    while True:
        after = rows[-1]["experiment_id"] if rows else 0
        page = experiments.of_task(task_id, caller, after=after, limit=MAX_MEASURED_PAGE).experiments
        rows += map(to_plain, page)
        if len(page) < MAX_MEASURED_PAGE:
            return task, rows
