"""Routes for commands that run inside a running job."""

import asyncio
import json
import struct
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from corral.api.answers.responses import gives
from corral.api.answers.streams import BrokenOff, PiecewiseResponse
from corral.api.answers.waiting import EndWaiter
from corral.api.requests import shapes
from corral.api.requests.bodies import Intake
from corral.api.requests.reading import read_body, read_query
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, json_response
from corral.core.access.permissions import must_reach
from corral.core.control.running.executions import FollowedExecution
from corral.core.model.answers.job_changes import InputProgress
from corral.core.model.errors import CorralError
from corral.core.model.jobs.input import InputState, TerminalSize
from corral.core.model.token import TokenScope
from corral.core.ports.runtime import InnerCommand

T = TypeVar("T")

HEADER = struct.Struct(">BI")
"""The header of each piece of output: its stream, and its length in bytes."""

END, STDOUT, STDERR = range(3)
"""A piece of END is the last one: a JSON object with `exit_code` and `message`."""

_KEEP_S = 3.0
_LONGEST_WAIT_S = 10.0
_SOONEST_S = 0.001
_LATEST_S = 0.2

router = RouteTable("jobs")


@router.post("/jobs/{job_id}/execs", takes=Body(shapes.ExecRequest), answers=gives(shapes.ExecId, status=201))
async def begin(request: Request, context: RequestContext, job_id: str) -> Response:
    """Run a command inside a running job, as its user and with all that it has. It ends with the job at the latest.

    It also ends when nobody follows its output: ask for that within ten seconds.
    """
    asked_for = await read_body(request, shapes.ExecRequest)
    command = InnerCommand(asked_for.command, asked_for.terminal, asked_for.term, asked_for.stdin)
    call = partial(context.service.executions.begin, job_id, command, asked_for.rank, context.caller)
    return json_response({"id": await _run(context, call)}, 201)


@router.get("/jobs/{job_id}/execs/{exec_id}/output", answers=gives(None, description="Pieces of output."))
async def output(request: Request, context: RequestContext, job_id: str, exec_id: str) -> Response:
    """Send the output of the command until it has ended. The command is ended when this connection closes. Five
    bytes precede each piece: 1 for standard output or 2 for errors, then its length in four bytes, the highest
    first. The last piece has 0 as its first byte: `{"exit_code": 0, "message": null}`.
    """
    must_reach(context.caller, TokenScope.SUBMIT)
    followed = await _run(context, partial(context.service.executions.follow, job_id, exec_id, context.caller))
    return _Output(followed, context, exec_id)


@router.post(
    "/jobs/{job_id}/execs/{exec_id}/input", takes=Body(None), query=shapes.InputQuery, answers=gives(InputProgress)
)
async def write_input(request: Request, context: RequestContext, job_id: str, exec_id: str) -> Response:
    """Send the next bytes of the command's input, as many as it takes now. It may be repeated.

    Waits a while for a command that takes nothing.
    """
    asked_for = read_query(request, shapes.InputQuery)
    intake: Intake = request.scope["state"]["intake"]
    data = await intake.bytes_of(request)
    executions = context.service.executions
    give = partial(executions.write, job_id, exec_id, asked_for.offset, data, end=asked_for.end, caller=context.caller)
    loop = asyncio.get_running_loop()
    until, pause_s = loop.time() + _LONGEST_WAIT_S, _SOONEST_S
    progress = await _run(context, give)
    while data and progress.state is InputState.OPEN and progress.offset <= asked_for.offset and loop.time() < until:
        if context.ends.closed:
            break
        await asyncio.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _LATEST_S)
        progress = await _run(context, give)
    context.inputs.given(exec_id)
    return json_response(progress)


@router.post("/jobs/{job_id}/execs/{exec_id}/terminal", takes=Body(TerminalSize), answers=gives(shapes.ExecId))
async def resize_terminal(request: Request, context: RequestContext, job_id: str, exec_id: str) -> Response:
    """Set the size of the command's terminal."""
    size = await read_body(request, TerminalSize)
    await _run(context, partial(context.service.executions.resize, job_id, exec_id, size, context.caller))
    return json_response({"id": exec_id})


class _Output(PiecewiseResponse):
    """All output of a command. The command is ended when this response ends, for whatever reason."""

    def __init__(self, followed: FollowedExecution, context: RequestContext, exec_id: str) -> None:
        super().__init__(_pieces(followed, context, exec_id), media_type="application/octet-stream")
        self._followed = followed
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        keeping = asyncio.create_task(self._keep())
        try:
            await super().__call__(scope, receive, send)
        finally:
            keeping.cancel()
            # The thread is not awaited: this coroutine may have been cancelled, and a node may answer slowly.
            threading.Thread(target=self._followed.close, name="end-exec", daemon=True).start()

    async def _keep(self) -> None:
        """Renew the claim on the command, because a client that reads slowly still wants it."""
        while True:
            await asyncio.sleep(_KEEP_S)
            with suppress(CorralError):
                await _run(self._context, self._followed.keep)


async def _pieces(followed: FollowedExecution, context: RequestContext, exec_id: str) -> AsyncIterator[bytes]:
    pause_s, waiter = _SOONEST_S, EndWaiter()
    with context.inputs.following(exec_id, waiter):
        while True:
            piece = await _run(context, followed.read)
            if piece.stdout:
                yield _framed(STDOUT, piece.stdout)
            if piece.stderr:
                yield _framed(STDERR, piece.stderr)
            if piece.exit_code is not None:
                said = {"exit_code": piece.exit_code, "message": piece.message}
                yield _framed(END, json.dumps(said).encode())
                return
            if piece.stdout or piece.stderr:
                pause_s = _SOONEST_S
                continue
            if context.ends.closed:
                raise BrokenOff
            # After an input, a user may wait for the echo of a key.
            woken = await waiter.woken(pause_s)
            pause_s = _SOONEST_S if woken else min(1.5 * pause_s, _LATEST_S)


def _framed(stream: int, data: bytes) -> bytes:
    return HEADER.pack(stream, len(data)) + data


async def _run(context: RequestContext, call: Callable[[], T]) -> T:
    """Run the call on a thread, because a node may answer slowly. Each user has a limited number of these threads."""
    return await context.input_threads.run(context.caller, call)
