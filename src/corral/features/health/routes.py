"""Routes about the health of devices."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.route_table import RouteTable
from corral.api.routing import RequestContext, answer
from corral.features.health.answers import Evidence, HealthList, HealthRow
from corral.features.health.health_access import HealthAccess

router = RouteTable("devices and server")


@router.get("/device-health", answers=gives(HealthList))
async def health(request: Request, context: RequestContext) -> Response:
    """List the devices that are sick, or were sick of late."""
    return await answer(context.of(HealthAccess).rows)


@router.post("/devices/{device:path}/trust", answers=gives(HealthRow))
async def trust(request: Request, context: RequestContext, device: str) -> Response:
    """Let jobs start on a device whatever its signs say, for administrators. A lasting sign counts again once it was
    gone."""
    return await answer(context.of(HealthAccess).trust, device, context.service.queries.uuid_of, context.caller)


@router.post("/devices/{device:path}/probe", answers=gives(HealthRow))
async def probe(request: Request, context: RequestContext, device: str) -> Response:
    """Have a device tested and watched, as after a fault, for administrators."""
    return await answer(context.of(HealthAccess).probe, device, context.service.queries.uuid_of, context.caller)


@router.get("/devices/{device:path}/evidence", answers=gives(Evidence))
async def evidence(request: Request, context: RequestContext, device: str) -> Response:
    """Return all that is known of a device's health, as a vendor asks for it."""
    return await answer(context.of(HealthAccess).evidence, device, context.service.queries.uuid_of, context.caller)
