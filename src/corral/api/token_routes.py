"""Routes about tokens: create, list, revoke."""

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.api import shapes
from corral.api.openapi import gives, takes, takes_query
from corral.api.reading import read_body, read_query
from corral.api.routing import Context, ContextRoute, answer, json_response
from corral.model.answers.tokens import MadeToken

router = APIRouter(tags=["tokens"], route_class=ContextRoute)


@router.post("/tokens", status_code=201, openapi_extra=takes(shapes.NewToken), responses=gives(MadeToken, status=201))
async def make(request: Request, context: Context) -> Response:
    """Create a token. Its secret is sent only in this answer."""
    wanted = await read_body(request, shapes.NewToken)
    response = await answer(
        context.token_issuer.make, wanted.user, wanted.scope, wanted.expires_in_s, context.caller, status=201
    )
    response.headers["cache-control"] = "no-store"
    return response


@router.get("/tokens", openapi_extra=takes_query(shapes.TokensQuery), responses=gives(shapes.TokenList))
async def tokens(request: Request, context: Context) -> Response:
    """List tokens without their secrets: the caller's own, for administrators everybody's."""
    wanted = read_query(request, shapes.TokensQuery)
    return await answer(lambda: {"tokens": context.token_issuer.listed(context.caller, all=wanted.all)})


@router.post("/tokens/{token_id}/revoke", responses=gives(shapes.TokenIds))
async def revoke(request: Request, context: Context, token_id: str) -> Response:
    """Revoke a token and all tokens created with it, at once."""
    return json_response({"ids": await to_thread.run_sync(context.token_issuer.revoke, token_id, context.caller)})
