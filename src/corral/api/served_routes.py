"""Serve the routes with Starlette, with little code between a request and its endpoint."""

from collections.abc import Awaitable, Callable, Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from corral.api.requests.bodies import MAX_BODY_BYTES, Intake
from corral.api.route_table import ApiRoute, RouteTable, SocketRoute
from corral.api.routing import AppState, least_scope, request_context
from corral.core.access.permissions import must_reach

Handler = Callable[[Request], Awaitable[Response]]


def served(table: RouteTable) -> Iterator[BaseRoute]:
    """The routes of a table, in their order. Endpoints get path parameters as text."""
    for route in table.routes:
        if isinstance(route, SocketRoute):
            yield WebSocketRoute(table.prefix + route.path, _socket(route.endpoint))
        else:
            yield ServedRoute(table.prefix + route.path, route)


class ServedRoute(Route):
    """A route with only its own method: Starlette would also answer HEAD for GET."""

    def __init__(self, path: str, route: ApiRoute) -> None:
        super().__init__(path, _Answering(_open_to_all(route) if route.open_to_all else _with_context(route)))
        self.methods = {route.method}


class _Answering:
    """The ASGI application that sends the answer of a handler."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._handle(Request(scope, receive, send))
        await response(scope, receive, send)


def _with_context(route: ApiRoute) -> Handler:
    """A handler that checks the scope of the caller's token, then calls the endpoint. Its request has an `Intake`."""
    endpoint = route.endpoint
    least = least_scope(route)
    most_bytes = route.takes.most_bytes if route.takes else MAX_BODY_BYTES

    async def handle(request: Request) -> Response:
        context = await request_context(request)
        must_reach(context.caller, least)
        state: AppState = request.app.state.corral
        request.scope["state"]["intake"] = intake = Intake(state.in_flight, context.caller.user, most_bytes)
        try:
            intake.refuse_announced(request)
            response: Response = await endpoint(request, context, **request.path_params)
        finally:
            intake.close()
        return response

    return handle


def _open_to_all(route: ApiRoute) -> Handler:
    endpoint = route.endpoint

    async def handle(request: Request) -> Response:
        response: Response = await endpoint(request, **request.path_params)
        return response

    return handle


def _socket(endpoint: Callable[..., Awaitable[None]]) -> Callable[[WebSocket], Awaitable[None]]:
    async def follow(websocket: WebSocket) -> None:
        await endpoint(websocket, **websocket.path_params)

    return follow
