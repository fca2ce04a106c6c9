"""The routes that replay recorded jobs under other policies. They show no more about jobs than listings do."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests.reading import read_body
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer, read_only
from corral.features.replays.answers import Replay, ReplayChoices
from corral.features.replays.bodies import NewReplay
from corral.features.replays.replay_access import Replays

router = RouteTable("devices and server")


@router.get("/replays", answers=gives(ReplayChoices))
async def replays(request: Request, context: RequestContext) -> Response:
    """List the policies that the past can be run again under, and the caller's replays of the last half hour."""
    return await answer(context.of(Replays).choices, context.caller)


@router.post("/replays", takes=Body(NewReplay), answers=gives(Replay, status=202))
@read_only
async def start(request: Request, context: RequestContext) -> Response:
    """Run the jobs of a period again under some policies, in a process of its own; ask after it by its id."""
    wanted = await read_body(request, NewReplay)
    return await answer(
        context.of(Replays).start, context.caller, wanted.policies, since=wanted.since, until=wanted.until, status=202
    )


@router.get("/replays/{replay_id}", answers=gives(Replay))
async def find(request: Request, context: RequestContext, replay_id: str) -> Response:
    """Tell how far a replay of the caller's is, and its result once it is done. One nobody asks after is ended."""
    return await answer(context.of(Replays).find, context.caller, replay_id)


@router.delete("/replays/{replay_id}", answers=gives(Replay))
@read_only
async def cancel(request: Request, context: RequestContext, replay_id: str) -> Response:
    """End a replay of the caller's; one that is over stays as it is."""
    return await answer(context.of(Replays).cancel, context.caller, replay_id)
