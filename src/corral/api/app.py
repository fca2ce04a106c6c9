"""The application: the routes of /api/v1 over one service."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

import corral
from corral.api import (
    alert_routes,
    channel_routes,
    event_routes,
    history_routes,
    interaction,
    job_changes,
    jobs,
    kpi_routes,
    log_routes,
    metrics_route,
    nodes,
    report_routes,
    site,
    token_routes,
)
from corral.api.answer_headers import AnswerHeaders
from corral.api.errors import add_error_handlers
from corral.api.metrics_route import RequestCounter
from corral.api.openapi import describer
from corral.api.pages import routes as page_routes
from corral.api.routing import AppState

_PREFIX = "/api/v1"

_ROUTERS: tuple[tuple[APIRouter, str], ...] = (
    (jobs.router, _PREFIX),
    (job_changes.router, _PREFIX),
    (log_routes.router, _PREFIX),
    (interaction.router, _PREFIX),
    (site.router, _PREFIX),
    (site.open_router, _PREFIX),
    (history_routes.router, _PREFIX),
    (event_routes.router, _PREFIX),
    (report_routes.router, _PREFIX),
    (kpi_routes.router, _PREFIX),
    (nodes.router, _PREFIX),
    (token_routes.router, _PREFIX),
    (channel_routes.router, _PREFIX),
    (alert_routes.router, _PREFIX),
    (site.graph_router, ""),
    (metrics_route.router, ""),
    (page_routes.router, _PREFIX),
    (page_routes.login_router, _PREFIX),
    (page_routes.file_router, ""),
)
"""All routes, with what their paths begin with. The first that matches a path answers."""


def description() -> dict[str, Any]:
    """The OpenAPI description of all routes, without a server."""
    described: dict[str, Any] = _routed().openapi()
    return described


def create_app(state: AppState) -> FastAPI:
    """The ASGI application. `state.ends.on_change` must be subscribed to the ledger that the service writes.

    Serve it with `corral.api.server`, whose connections name the peer; any other server would refuse every request.
    """
    app = _routed()
    app.state.corral = state
    routes = [(prefix + route.path, route) for router, prefix in _ROUTERS for route in _endpoints(router)]
    methods: dict[str, set[str]] = {}
    for path, route in routes:
        methods.setdefault(path, set()).update(route.methods or ())
    add_error_handlers(app, methods)
    paths: dict[Callable[..., Any], str] = {route.endpoint: path for path, route in routes}
    state.ends.when_closed(state.events.close)
    app.add_middleware(AnswerHeaders)
    app.add_middleware(RequestCounter, counts=state.metrics.requests, paths=paths)
    return app


def _routed() -> FastAPI:
    app = FastAPI(
        title="Corral",
        version=corral.__version__,
        description="Submit GPU work, see where it runs and why it waits.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.openapi = describer(app)  # type: ignore[method-assign]
    for router, prefix in _ROUTERS:
        app.include_router(router, prefix=prefix)
    return app


def _endpoints(router: APIRouter) -> list[APIRoute]:
    return [route for route in router.routes if isinstance(route, APIRoute)]
