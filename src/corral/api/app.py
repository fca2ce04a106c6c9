"""The application: the routes of /api/v1 over one service."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute

import corral
from corral.api import history_routes, interaction, job_changes, jobs, log_routes, nodes, shapes, site, token_routes
from corral.api.auth import Authenticator
from corral.api.errors import add_error_handlers
from corral.api.metrics_route import RequestCounter, metrics_router
from corral.api.openapi import describer, gives
from corral.api.routing import AppState, Context, answer, json_response
from corral.api.submitting import Submitter
from corral.api.user_threads import UserThreads
from corral.api.waiting import EndSignal
from corral.control.metrics.scrape import Metrics
from corral.control.service import Service
from corral.control.site.reloading import SiteSettings
from corral.control.token_issuer import TokenIssuer
from corral.history.asking import HistoryQueries

PREFIX = "/api/v1"


def create_app(
    service: Service,
    authenticator: Authenticator,
    token_issuer: TokenIssuer,
    ends: EndSignal,
    site_settings: SiteSettings,
    *,
    metrics: Metrics,
    history: HistoryQueries,
) -> FastAPI:
    """The ASGI application. `ends.on_change` must be subscribed to the ledger that the service writes.

    Serve it with `corral.api.server`, whose connections name the peer; any other server would refuse every request.
    """
    app = FastAPI(
        title="Corral",
        version=corral.__version__,
        description="Submit GPU work, see where it runs and why it waits.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.corral = AppState(
        service,
        Submitter(service),
        UserThreads(),
        UserThreads(),
        authenticator,
        token_issuer,
        ends,
        site_settings,
        history,
    )
    app.openapi = describer(app)  # type: ignore[method-assign]
    paths: dict[Callable[..., Any], str] = {}
    methods: dict[str, set[str]] = {f"{PREFIX}/health": {"GET"}, f"{PREFIX}/openapi.json": {"GET"}}
    for router, prefix in (
        (jobs.router, PREFIX),
        (job_changes.router, PREFIX),
        (log_routes.router, PREFIX),
        (interaction.router, PREFIX),
        (site.router, PREFIX),
        (history_routes.router, PREFIX),
        (nodes.router, PREFIX),
        (token_routes.router, PREFIX),
        (site.graph_router, ""),
        (metrics_router(metrics.text), ""),
    ):
        app.include_router(router, prefix=prefix)
        for route in router.routes:
            if isinstance(route, APIRoute):
                paths[route.endpoint] = prefix + route.path
                methods.setdefault(prefix + route.path, set()).update(route.methods or ())
    add_error_handlers(app, methods)
    app.add_middleware(RequestCounter, counts=metrics.requests, paths=paths)

    @app.get(f"{PREFIX}/health", tags=["devices and server"], responses=gives(shapes.Health))
    async def health() -> Response:
        """Tell that the server answers. Needs no token."""
        return json_response({"status": "ok"})

    @app.get(f"{PREFIX}/openapi.json", include_in_schema=False)
    async def description(request: Request, context: Context) -> Response:
        return await answer(request.app.openapi)

    return app
