"""The routes that replay recorded jobs under other policies. They show no more about jobs than listings do."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.reading import read_body
from corral.api.route_table import Body, RouteTable
from corral.api.routing import AppState, RequestContext, answer, read_only
from corral.core.model.answers.replays import Replay, ReplayChoices

router = RouteTable("devices and server")


@router.get("/replays", answers=gives(ReplayChoices))
async def replays(request: Request, context: RequestContext) -> Response:
    """List the policies that the past can be run again under, and the caller's replays of the last half hour."""
    state: AppState = request.app.state.corral
    return await answer(state.replays.choices, context.caller)


@router.post("/replays", takes=Body(shapes.NewReplay), answers=gives(Replay, status=202))
@read_only
async def start(request: Request, context: RequestContext) -> Response:
    """Run the jobs of a period again under some policies, in a process of its own; ask after it by its id."""
    state: AppState = request.app.state.corral
    wanted = await read_body(request, shapes.NewReplay)
    return await answer(
        state.replays.start, context.caller, wanted.policies, since=wanted.since, until=wanted.until, status=202
    )


@router.get("/replays/{replay_id}", answers=gives(Replay))
async def find(request: Request, context: RequestContext, replay_id: str) -> Response:
    """Tell how far a replay of the caller's is, and its result once it is done. One nobody asks after is ended."""
    state: AppState = request.app.state.corral
    return await answer(state.replays.find, context.caller, replay_id)


@router.delete("/replays/{replay_id}", answers=gives(Replay))
@read_only
async def cancel(request: Request, context: RequestContext, replay_id: str) -> Response:
    """End a replay of the caller's; one that is over stays as it is."""
    state: AppState = request.app.state.corral
    return await answer(state.replays.cancel, context.caller, replay_id)
