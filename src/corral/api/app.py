"""The application: the routes of /api/v1 over one service."""

from collections.abc import Callable, Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corral.api.answers.errors import add_error_handlers
from corral.api.route_table import RouteTable
from corral.api.routes import (
    event_routes,
    executions,
    file_routes,
    interaction,
    job_changes,
    jobs,
    log_routes,
    metrics_route,
    nodes,
    site,
    token_routes,
)
from corral.api.routes.metrics_route import RequestCounter
from corral.api.routing import AppState
from corral.api.served_routes import ServedRoute, served

_ROUTES = (
    jobs.router,
    job_changes.router,
    log_routes.router,
    interaction.router,
    executions.router,
    file_routes.router,
    site.router,
    site.open_router,
    event_routes.router,
    nodes.router,
    token_routes.router,
    site.graph_router,
    metrics_route.router,
)


def all_routes(of_features: Iterable[RouteTable]) -> tuple[RouteTable, ...]:
    """All routes. The first that matches a path answers."""
    return (*_ROUTES, *of_features)


def create_app(state: AppState, tables: Iterable[RouteTable], description: Callable[[], Any]) -> Starlette:
    """The ASGI application with these routes.

    `state.ends.on_change` must be subscribed to the ledger that the service writes.

    Serve it with `corral.api.server`, whose connections name the peer. Any other server would refuse every request.
    """
    routes = [route for table in tables for route in served(table)]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    app.state.corral = state
    app.state.description = description
    methods: dict[str, set[str]] = {}
    for route in routes:
        if isinstance(route, ServedRoute):
            methods.setdefault(route.path, set()).update(route.methods or ())
    add_error_handlers(app, methods)
    state.ends.when_closed(state.events.close)
    app.add_middleware(_AnswerHeaders)
    app.add_middleware(RequestCounter, counts=state.metrics.requests)
    return app


_HEADERS = (
    # A browser must not take a log, or any other content of users, for a page, whatever its first bytes are.
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # No proxy may cache an answer to a user, and the browser must not keep it after the session has ended.
    (b"cache-control", b"no-store"),
)


class _AnswerHeaders:
    """ASGI middleware that adds these headers to every answer. A header that the answer has already stays."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(each for each in _HEADERS if each[0] not in said)]
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)
