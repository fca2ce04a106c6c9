"""Routes about channels: those of the site, and the caller's own."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.reading import read_body
from corral.api.route_table import Body, RouteTable
from corral.api.routing import AppState, RequestContext, answer
from corral.core.model.answers.channels import ChannelRow, ChannelTest

router = RouteTable("alerts")


@router.get("/channels", answers=gives(shapes.ChannelList))
async def channels(request: Request, context: RequestContext) -> Response:
    """List the caller's own channel, for administrators the site's too, without their URLs."""
    state: AppState = request.app.state.corral
    return await answer(lambda: {"channels": state.channels.rows(context.caller)})


@router.post("/channels/{name:path}/test", answers=gives(ChannelTest))
async def test(request: Request, context: RequestContext, name: str) -> Response:
    """Send a message to a channel of the site once, and wait for the result: half a minute at most."""
    state: AppState = request.app.state.corral
    return await answer(state.channels.test, name, context.caller)


@router.post("/own-channel", takes=Body(shapes.OwnChannel), answers=gives(ChannelRow))
async def set_own(request: Request, context: RequestContext) -> Response:
    """Give the caller a channel, in place of the one there was."""
    state: AppState = request.app.state.corral
    wanted = await read_body(request, shapes.OwnChannel)
    return await answer(state.channels.set_own, wanted.url, context.caller)


@router.post("/own-channel/test", answers=gives(ChannelTest))
async def test_own(request: Request, context: RequestContext) -> Response:
    """Send a message to the caller's own channel once, and wait for the result: half a minute at most."""
    state: AppState = request.app.state.corral
    return await answer(state.channels.test_own, context.caller)


@router.post("/own-channel/remove", answers=gives(shapes.ChannelList))
async def remove_own(request: Request, context: RequestContext) -> Response:
    """Forget the caller's own channel. Answers with the channels that are left to see."""
    state: AppState = request.app.state.corral

    def remove() -> dict[str, list[ChannelRow]]:
        state.channels.remove_own(context.caller)
        return {"channels": state.channels.rows(context.caller)}

    return await answer(remove)
