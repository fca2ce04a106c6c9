"""The route that tells what a device was like."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.api import shapes
from corral.api.openapi import gives, takes_query
from corral.api.reading import read_query
from corral.api.routing import AppState, Context, ContextRoute, answer
from corral.model.answers.history import DeviceHistory

router = APIRouter(tags=["devices and server"], route_class=ContextRoute)


@router.get(
    "/history/devices/{uuid:path}",
    openapi_extra=takes_query(shapes.HistoryQuery),
    responses=gives(DeviceHistory),
)
async def device_history(request: Request, context: Context, uuid: str) -> Response:
    """Tell what a device was like over a stretch of time, also one that is gone: at most 1,000 points a series."""
    wanted = read_query(request, shapes.HistoryQuery)
    state: AppState = request.app.state.corral
    return await answer(
        state.history.device,
        uuid,
        range_name=wanted.range,
        start=wanted.from_,
        end=wanted.to,
        series=wanted.series,
    )
