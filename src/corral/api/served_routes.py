"""The routes as Starlette serves them.

FastAPI has them described, and would take longer to come to an endpoint than the endpoint takes to read a submission.
"""

from collections.abc import Awaitable, Callable, Iterator

from fastapi import APIRouter
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket


def served(router: APIRouter, prefix: str) -> Iterator[BaseRoute]:
    """The routes of a router, in their order. Parameters of a path go to the endpoint as they are."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield ServedRoute(prefix + route.path, route)
        else:
            assert isinstance(route, APIWebSocketRoute), route
            yield WebSocketRoute(prefix + route.path, _socket(route.endpoint))


class ServedRoute(Route):
    """A route that has just the methods that it names: GET does not stand for HEAD."""

    def __init__(self, path: str, route: APIRoute) -> None:
        super().__init__(path, _Answering(route.get_route_handler()))
        self.methods = set(route.methods or ())


class _Answering:
    """The application that sends what a handler answers."""

    def __init__(self, handle: Callable[[Request], Awaitable[Response]]) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._handle(Request(scope, receive, send))
        await response(scope, receive, send)


def _socket(endpoint: Callable[..., Awaitable[None]]) -> Callable[[WebSocket], Awaitable[None]]:
    async def follow(websocket: WebSocket) -> None:
        await endpoint(websocket, **websocket.path_params)

    return follow
