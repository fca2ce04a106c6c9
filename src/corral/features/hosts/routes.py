"""The routes about hosts that are joined by SSH."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests.reading import read_body
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer
from corral.core.model.devices.joined_host import JoinedHost
from corral.features.hosts import bodies
from corral.features.hosts.answers import HostList
from corral.features.hosts.host_access import HostAccessByPeople

router = RouteTable("devices and server")


@router.get("/hosts", answers=gives(HostList))
async def hosts(request: Request, context: RequestContext) -> Response:
    """List the hosts that are joined by SSH, with the state of each."""
    return await answer(context.of(HostAccessByPeople).rows)


@router.post("/hosts", takes=Body(bodies.NewHost), answers=gives(JoinedHost))
async def add(request: Request, context: RequestContext) -> Response:
    """Begin to join a host by SSH, for administrators. The list of hosts tells what becomes of it."""
    wanted = await read_body(request, bodies.NewHost)
    return await answer(context.of(HostAccessByPeople).add, wanted.host, wanted.order, context.caller)


@router.post("/hosts/{name}/check", answers=gives(JoinedHost))
async def check(request: Request, context: RequestContext, name: str) -> Response:
    """Try to reach a host now, for administrators."""
    return await answer(context.of(HostAccessByPeople).check, name, context.caller)


@router.post("/hosts/{name}/upgrade", answers=gives(JoinedHost))
async def upgrade(request: Request, context: RequestContext, name: str) -> Response:
    """Bring a host's agent to the server's version, for administrators. Its jobs run on."""
    return await answer(context.of(HostAccessByPeople).upgrade, name, context.caller)


@router.post("/hosts/{name}/remove", takes=Body(bodies.HostRemoval), answers=gives(HostList))
async def remove(request: Request, context: RequestContext, name: str) -> Response:
    """Remove a host, for administrators: its node leaves the pool. Jobs that run there are ended only with `force`."""
    wanted = await read_body(request, bodies.HostRemoval)
    return await answer(context.of(HostAccessByPeople).remove, name, context.caller, force=wanted.force)
