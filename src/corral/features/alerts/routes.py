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
    """List the active alerts, and on request the last resolved ones."""
    return await answer(context.of(AlertAccess).alerts, history=read_query(request, bodies.AlertsQuery).history)


@router.post("/alerts/{alert_id}/ack", answers=gives(AlertRow))
async def acknowledge(request: Request, context: RequestContext, alert_id: str) -> Response:
    """Acknowledge an alert: others see that the caller takes care of it. For administrators; alerts about jobs also
    for the jobs' users."""
    return await answer(context.of(AlertAccess).acknowledge, alert_id, context.caller)


@router.get("/silences", answers=gives(SilenceList))
async def silences(request: Request, context: RequestContext) -> Response:
    """List the silences that are in force."""
    return await answer(context.of(AlertAccess).silences)


@router.post("/silences", takes=Body(bodies.NewSilence), answers=gives(SilenceRow, status=201))
async def silence(request: Request, context: RequestContext) -> Response:
    """Suppress messages about alerts for a time: administrators about any alert, others about their own jobs."""
    wanted = await read_body(request, bodies.NewSilence)
    return await answer(
        context.of(AlertAccess).silence, wanted.match, wanted.duration_s, wanted.reason, context.caller, status=201
    )


@router.delete("/silences/{silence_id}", answers=gives(SilenceRow))
async def unsilence(request: Request, context: RequestContext, silence_id: str) -> Response:
    """End a silence. Messages about its alerts that are still active are sent then."""
    return await answer(context.of(AlertAccess).unsilence, silence_id, context.caller)
