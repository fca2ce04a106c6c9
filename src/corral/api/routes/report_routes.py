"""The routes that report on granted GPUs: their use, their cost, and jobs that had more than they needed."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.long_answers import LongAnswers
from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.reading import read_query
from corral.api.route_table import RouteTable
from corral.api.routing import AppState, RequestContext, to_json
from corral.core.model.answers.report import Report, Waste

router = RouteTable("devices and server")

_REPORTS = LongAnswers()
"""A report over a year takes a second of Python."""


@router.get("/report", query=shapes.ReportQuery, answers=gives(Report))
async def report(request: Request, context: RequestContext) -> Response:
    """Report the use of granted GPUs in a period: used, idle, unmetered and wasted hours, energy and cost."""
    wanted = read_query(request, shapes.ReportQuery)
    state: AppState = request.app.state.corral

    return await _made(request, lambda: state.reports.report(wanted.by, since=wanted.since, until=wanted.until))


@router.get("/waste", query=shapes.WasteQuery, answers=gives(Waste))
async def waste(request: Request, context: RequestContext) -> Response:
    """List the jobs of a period that used less than they were granted, each with a request that would have been
    enough."""
    wanted = read_query(request, shapes.WasteQuery)
    state: AppState = request.app.state.corral
    return await _made(request, lambda: state.reports.waste(since=wanted.since, until=wanted.until))


async def _made(request: Request, make: Callable[[], Report | Waste]) -> Response:
    return Response(await _REPORTS.make(request, lambda: to_json(make())), media_type="application/json")
