"""The route of a job's log."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from corral.api.answers.errors import response_to
from corral.api.answers.logs import AllLogs, OneLog, Read, follow_log, read_log
from corral.api.answers.responses import gives
from corral.api.answers.streams import BrokenOff, PiecewiseResponse, until_gone
from corral.api.connections.websockets import CLOSED_FAILED, CLOSED_RESTART
from corral.api.requests import shapes
from corral.api.requests.origins import must_be_of_no_other_page
from corral.api.requests.reading import read_query
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import RouteTable
from corral.api.routing import RequestContext, request_context
from corral.core.access.permissions import must_reach
from corral.core.control.querying.member_logs import PIECE_BYTES, MemberLog
from corral.core.model.errors import BackendFailed, CorralError, Refused
from corral.core.model.token import TokenScope
from corral.core.model.units import is_whole

router = RouteTable("jobs")


@router.get("/jobs/{job_id}/logs", query=shapes.LogQuery, answers=gives(None))
async def logs(request: Request, context: RequestContext, job_id: str) -> Response:
    """Send the log of a job's member, or of all. With `follow`, until the job has ended and all was sent."""
    chunks = await log_chunks(context, job_id, _checked(read_query(request, shapes.LogQuery)))
    return PiecewiseResponse(chunks, media_type="application/octet-stream")


@router.websocket("/jobs/{job_id}/logs")
async def log_socket(websocket: WebSocket, job_id: str) -> None:
    """Send a log over a WebSocket, each piece as a message. A browser has only six other connections in all."""
    try:
        must_be_of_no_other_page(websocket)
        context = await request_context(websocket)
        must_reach(context.caller, TokenScope.READ)
        asked_for = _checked(read_query(websocket, shapes.LogQuery))
        chunks = await log_chunks(context, job_id, replace(asked_for, follow=True))
    except CorralError as error:
        await websocket.send_denial_response(response_to(error))
        return
    await websocket.accept()
    await until_gone(partial(_gone, websocket), partial(_pass_on, chunks, websocket))


async def _gone(websocket: WebSocket) -> None:
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


async def _pass_on(chunks: AsyncIterator[bytes], websocket: WebSocket) -> None:
    """Send all of a log. The closing code says whether it was complete."""
    with suppress(WebSocketDisconnect):
        try:
            async for chunk in chunks:
                await websocket.send_bytes(chunk)
            await websocket.close()
        except BrokenOff:
            await websocket.close(CLOSED_RESTART, "the server stops")
        except BackendFailed:
            await websocket.close(CLOSED_FAILED, "the log cannot be read now")


async def log_chunks(context: RequestContext, job_id: str, asked_for: shapes.LogQuery) -> AsyncIterator[bytes]:
    """An iterator over the requested part of a log. The first piece is read here, so that errors are raised here."""
    members = await on_worker(context.service.logs, job_id, context.caller)
    if asked_for.rank != "all":
        members = (_of_rank(members, asked_for.rank, job_id),)
    chosen = [await _from_its_start(_Reading(member, context), asked_for) for member in members]
    pieces = AllLogs(chosen) if asked_for.rank == "all" else chosen[0]

    async def has_ended() -> bool:
        return await on_worker(members[0].has_ended)

    # Errors must be raised now: after an answer has begun it is too late.
    first = await pieces.next()
    if not asked_for.follow:
        return read_log(first, pieces)
    return follow_log(first, pieces, job_id, has_ended, signal=context.ends, inputs=context.inputs)


class _Reading:
    """Reads a member's log on threads, of which each user has a limited number."""

    def __init__(self, log: MemberLog, context: RequestContext) -> None:
        self._log = log
        self._context = context

    async def read(self, offset: int) -> bytes:
        return await self._context.log_threads.run(self._context.caller, partial(self._log.read, offset))

    async def size_bytes(self) -> int:
        return await self._context.log_threads.run(self._context.caller, self._log.size_bytes)

    async def written_since(self, wall: float) -> int:
        return await self._context.log_threads.run(self._context.caller, partial(self._log.written_since, wall))


def _checked(asked_for: shapes.LogQuery) -> shapes.LogQuery:
    """Return the query. Raises Refused if its parameters contradict each other."""
    for name, value in (("offset", asked_for.offset), ("tail", asked_for.tail)):
        if value is not None and value < 0:
            raise Refused(f"{name} must be 0 or more, not {value}", field=name)
    if asked_for.offset and (asked_for.tail, asked_for.since) != (None, None):
        raise Refused("offset, tail and since each say where to begin; give only one of them", field="offset")
    if asked_for.offset and asked_for.rank == "all":
        raise Refused("offset: the logs of all ranks together are read from the beginning", field="offset")
    return asked_for


def _of_rank(logs: Sequence[MemberLog], rank: str, job_id: str) -> MemberLog:
    if not is_whole(rank) or int(rank) >= len(logs):
        there = "rank 0 alone" if len(logs) == 1 else f"ranks 0 to {len(logs) - 1}"
        every = "" if len(logs) == 1 else "; all gives every one"
        raise Refused(f"rank: job {job_id} has {there}, not {rank:.20}{every}", field="rank")
    return logs[int(rank)]


async def _from_its_start(log: _Reading, asked_for: shapes.LogQuery) -> OneLog:
    """The log, beginning at the place that the query names."""
    if asked_for.tail is None and asked_for.since is None:
        return OneLog(log.read, asked_for.offset)
    end, start = await log.size_bytes(), 0
    if asked_for.since is not None:
        start = await line_of(log.read, end, await log.written_since(asked_for.since))
    if asked_for.tail is not None:
        start = max(start, await last_lines(log.read, end, asked_for.tail))
    return OneLog(log.read, start)


LOOKED_THROUGH_BYTES = 256 * 1024 * 1024
"""The last lines of a log are looked for in this many bytes at its end. A user can make a log of any size, without a
line break and without a block on disk. No request may keep the server reading for hours.
"""


async def last_lines(read: Read, end: int, lines: int) -> int:
    """The byte at which the last `lines` lines of a log begin. `end` is the length of the log in bytes.

    The log is read in pieces from its end, at most LOOKED_THROUGH_BYTES. Text after the last newline counts as a line.
    """
    at, left = end, lines
    while at > max(0, end - LOOKED_THROUGH_BYTES) and left > 0:
        start, piece = await _piece_before(read, at)
        # A newline at the very end of the log ends the last line, and begins none.
        stop = len(piece) - 1 if at == end and piece.endswith(b"\n") else len(piece)
        newlines = piece.count(b"\n", 0, stop)
        if newlines >= left:
            for _ in range(left):
                stop = piece.rindex(b"\n", 0, stop)
            return start + stop + 1
        at, left = start, left - newlines
    return at


async def line_of(read: Read, end: int, at: int) -> int:
    """The byte at which the line of byte `at` begins, in a log of `end` bytes; `at` itself if it begins far away."""
    if not 0 < at < end:
        return min(at, end)
    start, piece = await _piece_before(read, at)
    newline = piece.rfind(b"\n")
    return at if newline < 0 and start > 0 else start + newline + 1


async def _piece_before(read: Read, end: int) -> tuple[int, bytes]:
    """A piece of a log that ends at byte `end`, and its first byte. It is shorter, or empty, if the log was cut."""
    start = max(0, end - PIECE_BYTES)
    return start, (await read(start))[: end - start]
