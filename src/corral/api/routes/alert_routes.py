"""Routes about alerts: list and acknowledge them, and silence some for a time."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.reading import read_body, read_query
from corral.api.route_table import Body, RouteTable
from corral.api.routing import AppState, RequestContext, answer
from corral.core.control.alerting.alert_access import AlertAccess
from corral.core.model.answers.alerts import AlertList, AlertRow, SilenceList, SilenceRow

router = RouteTable("alerts")


@router.get("/alerts", query=shapes.AlertsQuery, answers=gives(AlertList))
async def alerts(request: Request, context: RequestContext) -> Response:
    """List the active alerts, and on request the last resolved ones."""
    return await answer(_alerts(request).alerts, history=read_query(request, shapes.AlertsQuery).history)


@router.post("/alerts/{alert_id}/ack", answers=gives(AlertRow))
async def acknowledge(request: Request, context: RequestContext, alert_id: str) -> Response:
    """Acknowledge an alert: others see that the caller takes care of it. For administrators; alerts about jobs also
    for the jobs' users."""
    return await answer(_alerts(request).acknowledge, alert_id, context.caller)


@router.get("/silences", answers=gives(SilenceList))
async def silences(request: Request, context: RequestContext) -> Response:
    """List the silences that are in force."""
    return await answer(_alerts(request).silences)


@router.post("/silences", takes=Body(shapes.NewSilence), answers=gives(SilenceRow, status=201))
async def silence(request: Request, context: RequestContext) -> Response:
    """Suppress messages about alerts for a time: administrators about any alert, others about their own jobs."""
    wanted = await read_body(request, shapes.NewSilence)
    return await answer(
        _alerts(request).silence, wanted.match, wanted.duration_s, wanted.reason, context.caller, status=201
    )


@router.delete("/silences/{silence_id}", answers=gives(SilenceRow))
async def unsilence(request: Request, context: RequestContext, silence_id: str) -> Response:
    """End a silence. Messages about its alerts that are still active are sent then."""
    return await answer(_alerts(request).unsilence, silence_id, context.caller)


def _alerts(request: Request) -> AlertAccess:
    state: AppState = request.app.state.corral
    return state.alerts
