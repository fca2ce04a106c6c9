"""The application: the routes of /api/v1 over one service."""

from collections.abc import Callable, Iterable
from typing import Any

from starlette.applications import Starlette

from corral.api.answers.answer_headers import AnswerHeaders
from corral.api.answers.errors import add_error_handlers
from corral.api.autotuner import autotuner_routes, autotuner_site, autotuner_streams
from corral.api.route_table import RouteTable
from corral.api.routes import (
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
    report_routes,
    site,
    token_routes,
    tuning_insight_routes,
    tuning_routes,
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
    site.router,
    site.open_router,
    history_routes.router,
    event_routes.router,
    report_routes.router,
    kpi_routes.router,
    nodes.router,
    token_routes.router,
    tuning_routes.router,
    autotuner_routes.router,
    tuning_insight_routes.router,
    autotuner_streams.router,
    autotuner_site.router,
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
    app.add_middleware(AnswerHeaders)
    app.add_middleware(RequestCounter, counts=state.metrics.requests)
    return app
