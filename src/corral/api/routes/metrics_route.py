"""The route for Prometheus, and the request counter behind its metrics."""

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corral.api.answers.responses import gives_text
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import RouteTable
from corral.api.routing import AppState, RequestContext
from corral.core.control.metrics.exposition import CONTENT_TYPE
from corral.core.control.metrics.request_counts import RequestCounts

router = RouteTable("devices and server", prefix="")


@router.get("/metrics", answers=gives_text(CONTENT_TYPE, "All metrics, in Prometheus's text format."))
async def metrics(request: Request, context: RequestContext) -> Response:
    """Tell devices, jobs, queues, nodes and the server itself in numbers, for Prometheus."""
    state: AppState = request.app.state.corral
    return Response(await on_worker(state.metrics.text), media_type=CONTENT_TYPE)


class RequestCounter:
    """ASGI middleware that counts every request by the route that answered it."""

    def __init__(self, app: ASGIApp, counts: RequestCounts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        answered = False

        async def counted(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start" and not answered:
                answered = True
                self._count(scope, message["status"], began)
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception:
            if not answered:
                self._count(scope, 500, began)
            raise

    def _count(self, scope: Scope, status: int, began: float) -> None:
        path = getattr(scope.get("route"), "path", None)
        self._counts.add(path, scope["method"], status, time.perf_counter() - began)
