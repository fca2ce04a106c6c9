"""The routes that show and start moves of running jobs. They show no more about jobs than listings do."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.route_table import RouteTable
from corral.api.routing import RequestContext, answer
from corral.features.rebalancing.answers import Rebalance
from corral.features.rebalancing.rebalancing import Rebalancing

router = RouteTable("devices and server")


@router.get("/rebalance", answers=gives(Rebalance))
async def foreseen(request: Request, context: RequestContext) -> Response:
    """Show which running jobs the scheduler would move now, for which waiting jobs, and what it costs."""
    return await answer(context.of(Rebalancing).foreseen)


@router.post("/rebalance", answers=gives(Rebalance))
async def start(request: Request, context: RequestContext) -> Response:
    """Let the scheduler move running jobs for ten minutes. Only administrators may."""
    return await answer(context.of(Rebalancing).start, context.caller)
