"""The route that tells what was made of granted GPUs, and what it cost."""

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.api import shapes
from corral.api.openapi import gives, takes_query
from corral.api.reading import read_query
from corral.api.routing import AppState, Context, ContextRoute, to_json
from corral.model.answers.report import Report

router = APIRouter(tags=["devices and server"], route_class=ContextRoute)

_ONE_AT_A_TIME = CapacityLimiter(1)
"""A report over a year is a second of Python: further ones wait for it without a thread."""


@router.get("/report", openapi_extra=takes_query(shapes.ReportQuery), responses=gives(Report))
async def report(request: Request, context: Context) -> Response:
    """Tell what GPUs were granted for in a period: used, idle, unmetered and wasted hours, energy and cost."""
    wanted = read_query(request, shapes.ReportQuery)
    state: AppState = request.app.state.corral

    def made() -> bytes:
        return to_json(state.reports.report(wanted.by, since=wanted.since, until=wanted.until))

    return Response(await to_thread.run_sync(made, limiter=_ONE_AT_A_TIME), media_type="application/json")
