"""Routes about devices and the server itself."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.errors import TooLarge
from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.reading import read_body, read_query
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer, json_response, read_only
from corral.core.model.answers.devices import SlicePlan
from corral.core.model.answers.site import ReloadedSettings, ServerInfo
from corral.core.model.errors import Refused

router = RouteTable("devices and server")
graph_router = RouteTable(prefix="")
open_router = RouteTable("devices and server", open_to_all=True)
"""The routes that everybody may use, without a token."""


@router.get("/devices", answers=gives(shapes.DeviceList))
async def devices(request: Request, context: RequestContext) -> Response:
    """List the devices with their last samples and the jobs on them."""
    return await answer(lambda: {"devices": context.service.queries.devices()})


@router.post("/devices/{device:path}/cordon", takes=Body(shapes.Cordon), answers=gives(shapes.DeviceList))
async def cordon(request: Request, context: RequestContext, device: str) -> Response:
    """Keep new jobs from starting on a device."""
    reason = (await read_body(request, shapes.Cordon)).reason
    rows = await on_worker(context.service.device_cordons.cordon, device, reason, context.caller)
    return json_response({"devices": rows})


@router.post("/devices/{device:path}/uncordon", answers=gives(shapes.DeviceList))
async def uncordon(request: Request, context: RequestContext, device: str) -> Response:
    """Let jobs start on a device again."""
    rows = await on_worker(context.service.device_cordons.uncordon, device, context.caller)
    return json_response({"devices": rows})


@router.post("/devices/{device:path}/slices", takes=Body(shapes.Cut), answers=gives(SlicePlan))
async def cut(request: Request, context: RequestContext, device: str) -> Response:
    """Create MIG slices on a device, or show how."""
    wanted = await read_body(request, shapes.Cut)
    slicing = context.service.slicing
    return await answer(slicing.cut, device, wanted.profile, wanted.count, context.caller, apply=wanted.apply)


@router.post("/devices/{device:path}/slices/give-up", takes=Body(shapes.GiveUp), answers=gives(SlicePlan))
async def give_up(request: Request, context: RequestContext, device: str) -> Response:
    """Delete all MIG slices of a device, or show how."""
    wanted = await read_body(request, shapes.GiveUp)
    return await answer(context.service.slicing.give_up, device, context.caller, apply=wanted.apply)


@router.get("/queues", query=shapes.QueuesQuery, answers=gives(shapes.QueueList))
async def queues(request: Request, context: RequestContext) -> Response:
    """List the queues with their quotas and use, and the amounts left to the caller."""
    project = read_query(request, shapes.QueuesQuery).project
    return await answer(lambda: {"queues": context.service.queues.rows(context.caller, project)})


@router.get("/resource-names", answers=gives(shapes.ResourceNameList))
async def resource_names(request: Request, context: RequestContext) -> Response:
    """List the resource names of other systems that submissions may use, each with the meaning of one unit."""
    return await answer(lambda: {"resources": context.service.resource_names()})


@router.get("/alloc-map", answers=gives(shapes.AllocMap))
async def alloc_map(request: Request, context: RequestContext) -> Response:
    """Tell how much of each device is allocated, and to which jobs."""
    return await answer(lambda: {"devices": context.service.holdings.rows()})


@graph_router.post("/graphql")
@read_only
async def graphql(request: Request, context: RequestContext) -> Response:
    """Answer a GraphQL query about the allocation map. An invalid one gets an answer with GraphQL's `errors`."""
    try:
        query = await read_body(request, shapes.GraphQuery)
    except TooLarge:
        raise
    except Refused as refused:
        error = {"message": str(refused), "path": None, "extensions": {"kind": "Refused"}}
        return json_response({"data": None, "errors": [error]})

    def execute() -> Any:
        # The GraphQL library takes a third of a second and 25 MiB to load, and few servers need it.
        from corral.api.routes import graphql

        return graphql.execute(query.query, query.variables, query.operationName, context.service, context.caller)

    return await answer(execute)


@router.post("/config/reload", answers=gives(ReloadedSettings))
async def reload(request: Request, context: RequestContext) -> Response:
    """Have the server read its settings again: all that a running server takes on is in force then, or nothing is."""
    return await answer(context.site_settings.reload_for, context.caller)


@router.get("/server", answers=gives(ServerInfo))
async def server(request: Request, context: RequestContext) -> Response:
    """Describe this server and its machine."""
    return await answer(context.service.queries.server)


@router.get("/openapi.json")
async def description(request: Request, context: RequestContext) -> Response:
    """Describe all routes."""
    return await answer(request.app.state.description)


@open_router.get("/health", answers=gives(shapes.Liveness))
async def health(request: Request) -> Response:
    """Tell that the server answers. Needs no token."""
    return json_response({"status": "ok"})
