"""The routes that run the past again under other policies. What they tell of jobs is what listings tell everybody."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.api import shapes
from corral.api.openapi import gives, takes
from corral.api.reading import read_body
from corral.api.routing import AppState, Context, ContextRoute, answer, read_only
from corral.model.answers.replays import Replay, ReplayChoices

router = APIRouter(tags=["devices and server"], route_class=ContextRoute)


@router.get("/replays", responses=gives(ReplayChoices))
async def replays(request: Request, context: Context) -> Response:
    """List the policies that the past can be run again under, and the caller's replays of the last half hour."""
    state: AppState = request.app.state.corral
    return await answer(state.replays.choices, context.caller)


@router.post("/replays", status_code=202, openapi_extra=takes(shapes.NewReplay), responses=gives(Replay, status=202))
@read_only
async def start(request: Request, context: Context) -> Response:
    """Run the jobs of a period again under some policies, in a process of its own; ask after it by its id."""
    state: AppState = request.app.state.corral
    wanted = await read_body(request, shapes.NewReplay)
    return await answer(
        state.replays.start, context.caller, wanted.policies, since=wanted.since, until=wanted.until, status=202
    )


@router.get("/replays/{replay_id}", responses=gives(Replay))
async def find(request: Request, context: Context, replay_id: str) -> Response:
    """Tell how far a replay of the caller's is, and its result once it is done. One nobody asks after is ended."""
    state: AppState = request.app.state.corral
    return await answer(state.replays.find, context.caller, replay_id)


@router.delete("/replays/{replay_id}", responses=gives(Replay))
@read_only
async def cancel(request: Request, context: Context, replay_id: str) -> Response:
    """End a replay of the caller's; one that is over stays as it is."""
    state: AppState = request.app.state.corral
    return await answer(state.replays.cancel, context.caller, replay_id)
