"""Routes about the nodes."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.reading import read_body
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer, json_response

router = RouteTable("nodes")


@router.get("/nodes", answers=gives(shapes.NodeList))
async def nodes(request: Request, context: RequestContext) -> Response:
    """List the nodes, whether jobs may start on them, and their resources."""
    return await answer(lambda: {"nodes": context.service.node_cordons.nodes()})


@router.post("/nodes/{node}/cordon", takes=Body(shapes.Cordon), answers=gives(shapes.NodeList))
async def cordon(request: Request, context: RequestContext, node: str) -> Response:
    """Cordon a node: no further job starts on it, and running jobs go on."""
    reason = (await read_body(request, shapes.Cordon)).reason
    row = await on_worker(context.service.node_cordons.cordon, node, reason, context.caller)
    return json_response({"nodes": [row]})


@router.post("/nodes/{node}/drain", takes=Body(shapes.Drain), answers=gives(shapes.NodeList))
async def drain(request: Request, context: RequestContext, node: str) -> Response:
    """Empty a node: no further job starts on it, and jobs that still run at the deadline go back to their queue."""
    wanted = await read_body(request, shapes.Drain)
    cordons = context.service.node_cordons
    row = await on_worker(cordons.drain, node, wanted.reason, wanted.deadline_s, context.caller)
    return json_response({"nodes": [row]})


@router.post("/nodes/{node}/uncordon", answers=gives(shapes.NodeList))
async def uncordon(request: Request, context: RequestContext, node: str) -> Response:
    """Give a node back."""
    row = await on_worker(context.service.node_cordons.uncordon, node, context.caller)
    return json_response({"nodes": [row]})
