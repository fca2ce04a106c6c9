"""Routes that reach a running job: signals, input, the size of its terminal, and the fence of a reservation."""

import asyncio
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.bodies import Intake
from corral.api.requests.reading import read_body, read_query
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, json_response
from corral.core.model.answers.job_changes import InputProgress
from corral.core.model.jobs.input import InputState, TerminalSize
from corral.unix_peer import Peer

LONGEST_WAIT_S = 10.0
"""A request waits this long for its job to take input. Then the answer says that nothing was taken."""

_SOONEST_S = 0.005
_LATEST_S = 0.5

router = RouteTable("jobs")


@router.post("/jobs/{job_id}/signal", takes=Body(shapes.JobSignal), answers=gives(shapes.JobIds))
async def signal(request: Request, context: RequestContext, job_id: str) -> Response:
    """Send a signal to every process of a job that runs."""
    asked_for = await read_body(request, shapes.JobSignal)
    call = partial(context.service.interaction.signal, job_id, asked_for.signal, context.caller)
    await context.input_threads.run(context.caller, call)
    return json_response({"ids": (job_id,)})


@router.post(
    "/jobs/{job_id}/input",
    takes=Body(None),
    query=shapes.InputQuery,
    answers=gives(InputProgress),
)
async def write_input(request: Request, context: RequestContext, job_id: str) -> Response:
    """Send the next bytes of a job's input, as many as it takes now. An empty body asks how much it has taken. The
    request waits a while for a job that takes nothing yet. It may be repeated: bytes that the job already has are
    skipped. A client without input sends an empty body every 20 seconds; a job is ended if its client sends nothing
    for a minute.
    """
    asked_for = read_query(request, shapes.InputQuery)
    intake: Intake = request.scope["state"]["intake"]
    data = await intake.bytes_of(request)
    interaction = context.service.interaction
    give = partial(interaction.write_input, job_id, asked_for.offset, data, asked_for.end, context.caller)
    loop = asyncio.get_running_loop()
    until, pause_s = loop.time() + LONGEST_WAIT_S, _SOONEST_S
    with context.ends.waiter([job_id]) as waiter:
        progress: InputProgress = await context.input_threads.run(context.caller, give)
        while loop.time() < until and not context.ends.closed and _nothing_taken(progress, asked_for, data):
            woken = await waiter.woken(pause_s)
            pause_s = min(1.5 * pause_s, _LATEST_S)
            if woken or not interaction.waits(job_id):
                progress = await context.input_threads.run(context.caller, give)
    if data:
        context.inputs.given(job_id)
    return json_response(progress)


@router.post("/jobs/{job_id}/terminal", takes=Body(TerminalSize), answers=gives(shapes.JobIds))
async def resize_terminal(request: Request, context: RequestContext, job_id: str) -> Response:
    """Set the size of a job's terminal."""
    size = await read_body(request, TerminalSize)
    call = partial(context.service.interaction.resize_terminal, job_id, size, context.caller)
    await context.input_threads.run(context.caller, call)
    return json_response({"ids": (job_id,)})


@router.post("/jobs/{job_id}/fence", takes=Body(shapes.FenceRequest), answers=gives(shapes.Fence))
async def fence(request: Request, context: RequestContext, job_id: str) -> Response:
    """Keep the process that asks, and all that it will start, from GPUs outside of its user's reservation. It has to
    ask over the Unix socket of the machine with these GPUs.
    """
    asked_for = await read_body(request, shapes.FenceRequest)
    peer: Peer | None = request.scope["state"]["peer"]
    # Behind a tunnel the peer is the tunnel.
    pid = peer.pid if peer is not None and peer.pid == asked_for.pid else 0
    unfenced = await on_worker(context.service.reserved.fence, job_id, pid, context.caller)
    return json_response({"unfenced": unfenced})


def _nothing_taken(progress: InputProgress, asked_for: shapes.InputQuery, data: bytes) -> bool:
    """Whether waiting may help: the job has not begun, or its program reads nothing now."""
    if progress.state is InputState.OPEN:
        return bool(data or asked_for.end) and progress.offset <= asked_for.offset
    return progress.state is InputState.WAITING
