"""Routes about alerts: list and acknowledge them, and silence some for a time."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.api import shapes
from corral.api.openapi import gives, takes, takes_query
from corral.api.reading import read_body, read_query
from corral.api.routing import AppState, Context, ContextRoute, answer
from corral.control.alerting.alert_access import AlertAccess
from corral.model.answers.alerts import AlertList, AlertRow, SilenceList, SilenceRow

router = APIRouter(tags=["alerts"], route_class=ContextRoute)


@router.get("/alerts", openapi_extra=takes_query(shapes.AlertsQuery), responses=gives(AlertList))
async def alerts(request: Request, context: Context) -> Response:
    """List the alerts that fire, and the last that are over if asked for."""
    return await answer(_alerts(request).alerts, history=read_query(request, shapes.AlertsQuery).history)


@router.post("/alerts/{alert_id}/ack", responses=gives(AlertRow))
async def acknowledge(request: Request, context: Context, alert_id: str) -> Response:
    """Say that the caller takes care of what an alert tells of. For administrators, and of jobs for their users."""
    return await answer(_alerts(request).acknowledge, alert_id, context.caller)


@router.get("/silences", responses=gives(SilenceList))
async def silences(request: Request, context: Context) -> Response:
    """List the silences that are in force."""
    return await answer(_alerts(request).silences)


@router.post(
    "/silences", status_code=201, openapi_extra=takes(shapes.NewSilence), responses=gives(SilenceRow, status=201)
)
async def silence(request: Request, context: Context) -> Response:
    """Keep alerts from being told for a time: an administrator any, others those about their own jobs."""
    wanted = await read_body(request, shapes.NewSilence)
    return await answer(
        _alerts(request).silence, wanted.match, wanted.duration_s, wanted.reason, context.caller, status=201
    )


@router.delete("/silences/{silence_id}", responses=gives(SilenceRow))
async def unsilence(request: Request, context: Context, silence_id: str) -> Response:
    """End a silence: what it kept back and still fires is told."""
    return await answer(_alerts(request).unsilence, silence_id, context.caller)


def _alerts(request: Request) -> AlertAccess:
    state: AppState = request.app.state.corral
    return state.alerts
