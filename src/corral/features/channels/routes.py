"""Routes about channels: those of the site, and the caller's own."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests.reading import read_body
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer
from corral.features.channels import bodies
from corral.features.channels.answers import ChannelRow, ChannelTest
from corral.features.channels.channel_access import ChannelAccess

router = RouteTable("alerts")


@router.get("/channels", answers=gives(bodies.ChannelList))
async def channels(request: Request, context: RequestContext) -> Response:
    """List the caller's own channel, for administrators the site's too, without their URLs."""
    return await answer(lambda: {"channels": context.of(ChannelAccess).rows(context.caller)})


@router.post("/channels/{name:path}/test", answers=gives(ChannelTest))
async def test(request: Request, context: RequestContext, name: str) -> Response:
    """Send a message to a channel of the site once, and wait for the result: half a minute at most."""
    return await answer(context.of(ChannelAccess).test, name, context.caller)


@router.post("/own-channel", takes=Body(bodies.OwnChannel), answers=gives(ChannelRow))
async def set_own(request: Request, context: RequestContext) -> Response:
    """Give the caller a channel, in place of the one there was."""
    wanted = await read_body(request, bodies.OwnChannel)
    return await answer(context.of(ChannelAccess).set_own, wanted.url, context.caller)


@router.post("/own-channel/test", answers=gives(ChannelTest))
async def test_own(request: Request, context: RequestContext) -> Response:
    """Send a message to the caller's own channel once, and wait for the result: half a minute at most."""
    return await answer(context.of(ChannelAccess).test_own, context.caller)


@router.post("/own-channel/remove", answers=gives(bodies.ChannelList))
async def remove_own(request: Request, context: RequestContext) -> Response:
    """Forget the caller's own channel. Answers with the channels that are left to see."""

    def remove() -> dict[str, list[ChannelRow]]:
        context.of(ChannelAccess).remove_own(context.caller)
        return {"channels": context.of(ChannelAccess).rows(context.caller)}

    return await answer(remove)
