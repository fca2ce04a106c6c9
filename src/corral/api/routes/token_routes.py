"""Routes about tokens: create, list, revoke."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.reading import read_body, read_query
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer, json_response
from corral.core.model.answers.tokens import MadeToken

router = RouteTable("tokens")


@router.post("/tokens", takes=Body(shapes.NewToken), answers=gives(MadeToken, status=201))
async def make(request: Request, context: RequestContext) -> Response:
    """Create a token. Its secret is sent only in this answer."""
    wanted = await read_body(request, shapes.NewToken)
    response = await answer(
        context.token_issuer.make, wanted.user, wanted.scope, wanted.expires_in_s, context.caller, status=201
    )
    response.headers["cache-control"] = "no-store"
    return response


@router.get("/tokens", query=shapes.TokensQuery, answers=gives(shapes.TokenList))
async def tokens(request: Request, context: RequestContext) -> Response:
    """List tokens without their secrets: the caller's own, for administrators everybody's."""
    wanted = read_query(request, shapes.TokensQuery)
    return await answer(lambda: {"tokens": context.token_issuer.listed(context.caller, all=wanted.all)})


@router.post("/tokens/{token_id}/revoke", answers=gives(shapes.TokenIds))
async def revoke(request: Request, context: RequestContext, token_id: str) -> Response:
    """Revoke a token and all tokens created with it, at once."""
    return json_response({"ids": await on_worker(context.token_issuer.revoke, token_id, context.caller)})
