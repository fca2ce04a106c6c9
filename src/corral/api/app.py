"""The application: the routes of /api/v1 over one service."""

from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corral.api.answers.errors import add_error_handlers
from corral.api.autotuner import autotuner_routes, autotuner_site, autotuner_streams
from corral.api.pages import routes as page_routes
from corral.api.route_table import RouteTable
from corral.api.routes import (
    alert_routes,
    channel_routes,
    event_routes,
    executions,
    history_routes,
    interaction,
    job_changes,
    jobs,
    kpi_routes,
    log_routes,
    metrics_route,
    nodes,
    replay_routes,
    report_routes,
    site,
    token_routes,
    tuning_insight_routes,
    tuning_routes,
)
from corral.api.routes.metrics_route import RequestCounter
from corral.api.routing import AppState
from corral.api.served_routes import ServedRoute, served

_PREFIX = "/api/v1"
_OTHER_NAMES = "/api"
"""The prefix under which clients of another autotuner look for its paths."""

ROUTES: tuple[tuple[RouteTable, str], ...] = (
    (jobs.router, _PREFIX),
    (job_changes.router, _PREFIX),
    (log_routes.router, _PREFIX),
    (interaction.router, _PREFIX),
    (executions.router, _PREFIX),
    (site.router, _PREFIX),
    (site.open_router, _PREFIX),
    (history_routes.router, _PREFIX),
    (event_routes.router, _PREFIX),
    (report_routes.router, _PREFIX),
    (kpi_routes.router, _PREFIX),
    (replay_routes.router, _PREFIX),
    (nodes.router, _PREFIX),
    (token_routes.router, _PREFIX),
    (channel_routes.router, _PREFIX),
    (alert_routes.router, _PREFIX),
    (tuning_routes.router, _PREFIX),
    (autotuner_routes.router, _OTHER_NAMES),
    (tuning_insight_routes.router, _PREFIX),
    (autotuner_streams.router, _OTHER_NAMES),
    (autotuner_site.router, _OTHER_NAMES),
    (site.graph_router, ""),
    (metrics_route.router, ""),
    (page_routes.router, _PREFIX),
    (page_routes.login_router, _PREFIX),
    (page_routes.file_router, ""),
)
"""All routes, each table with the prefix of its paths. The first route that matches a path answers."""


@cache
def description() -> dict[str, Any]:
    """The OpenAPI description of all routes. It needs no running server."""
    from corral.api.openapi import describe  # loads pydantic, which no other part of a server needs

    return describe(ROUTES)


def create_app(state: AppState) -> Starlette:
    """The ASGI application. `state.ends.on_change` must be subscribed to the ledger that the service writes.

    Serve it with `corral.api.server`, whose connections name the peer. Any other server would refuse every request.
    """
    routes = [route for table, prefix in ROUTES for route in served(table, prefix)]
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
