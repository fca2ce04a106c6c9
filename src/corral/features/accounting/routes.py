"""The routes for usage, fair shares and reports: the use and cost of granted GPUs, and jobs that did not need them."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.long_answers import LongAnswers
from corral.api.answers.responses import gives
from corral.api.requests.reading import read_query
from corral.api.route_table import RouteTable
from corral.api.routing import RequestContext, answer, to_json
from corral.features.accounting import bodies
from corral.features.accounting.accounts import Accounts
from corral.features.accounting.answers import FairShares, Report, Usage, Waste
from corral.features.accounting.gpu_reports import GpuReports

router = RouteTable("devices and server")

_REPORTS = LongAnswers()
"""A report over a year takes a second of Python."""


@router.get("/report", query=bodies.ReportQuery, answers=gives(Report))
async def report(request: Request, context: RequestContext) -> Response:
    """Report the use of granted GPUs in a period: used, idle, unmetered and wasted hours, energy and cost."""
    wanted = read_query(request, bodies.ReportQuery)
    reports = context.of(GpuReports)
    return await _made(request, lambda: reports.report(wanted.by, since=wanted.since, until=wanted.until))


@router.get("/waste", query=bodies.WasteQuery, answers=gives(Waste))
async def waste(request: Request, context: RequestContext) -> Response:
    """List the jobs of a period that used less than they were granted, each with a request that would have been
    enough."""
    wanted = read_query(request, bodies.WasteQuery)
    reports = context.of(GpuReports)
    return await _made(request, lambda: reports.waste(since=wanted.since, until=wanted.until))


@router.get("/usage", query=bodies.UsageQuery, answers=gives(Usage))
async def usage(request: Request, context: RequestContext) -> Response:
    """Show the GPU-hours used in a period by each group, and how well shares were enforced."""
    wanted = read_query(request, bodies.UsageQuery)
    return await answer(context.of(Accounts).usage, wanted.by, since=wanted.since, until=wanted.until)


@router.get("/fair-shares", answers=gives(FairShares))
async def fair_shares(request: Request, context: RequestContext) -> Response:
    """Show the use of each project and user as the policy `fair-share` counts it to order jobs."""
    return await answer(context.of(Accounts).fair_shares)


async def _made(request: Request, make: Callable[[], Report | Waste]) -> Response:
    return Response(await _REPORTS.make(request, lambda: to_json(make())), media_type="application/json")
