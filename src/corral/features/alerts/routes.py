"""Routes about alerts: list and acknowledge them, and silence some for a time."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests.reading import read_body, read_query
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer
from corral.features.alerts import bodies
from corral.features.alerts.alert_access import AlertAccess
from corral.features.alerts.answers import AlertList, AlertRow, SilenceList, SilenceRow

router = RouteTable("alerts")


@router.get("/alerts", query=bodies.AlertsQuery, answers=gives(AlertList))
async def alerts(request: Request, context: RequestContext) -> Response:
    """List the alerts that fire, and the last that are over if asked for."""
    return await answer(context.of(AlertAccess).alerts, history=read_query(request, bodies.AlertsQuery).history)


@router.post("/alerts/{alert_id}/ack", answers=gives(AlertRow))
async def acknowledge(request: Request, context: RequestContext, alert_id: str) -> Response:
    """Say that the caller takes care of what an alert tells of. For administrators, and of jobs for their users."""
    return await answer(context.of(AlertAccess).acknowledge, alert_id, context.caller)


@router.get("/silences", answers=gives(SilenceList))
async def silences(request: Request, context: RequestContext) -> Response:
    """List the silences that are in force."""
    return await answer(context.of(AlertAccess).silences)


@router.post("/silences", takes=Body(bodies.NewSilence), answers=gives(SilenceRow, status=201))
async def silence(request: Request, context: RequestContext) -> Response:
    """Keep alerts from being told for a time: an administrator any, others those about their own jobs."""
    wanted = await read_body(request, bodies.NewSilence)
    return await answer(
        context.of(AlertAccess).silence, wanted.match, wanted.duration_s, wanted.reason, context.caller, status=201
    )


@router.delete("/silences/{silence_id}", answers=gives(SilenceRow))
async def unsilence(request: Request, context: RequestContext, silence_id: str) -> Response:
    """End a silence: what it kept back and still fires is told."""
    return await answer(context.of(AlertAccess).unsilence, silence_id, context.caller)
