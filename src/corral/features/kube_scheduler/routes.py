"""The routes that kube-scheduler calls. It can show a certificate, and no token."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.route_table import RouteTable
from corral.api.routing import AppState
from corral.features.kube_scheduler.scheduler_calls import SchedulerCalls

extender_routes = RouteTable("kube-scheduler", prefix="/extender", open_to_all=True)
other_names_routes = RouteTable("kube-scheduler, by other names", prefix="/scheduler", open_to_all=True)


@extender_routes.post("/filter")
async def filter_nodes(request: Request) -> Response:
    """Say which nodes a pod may have."""
    return _json(await _calls(request).answer(request, "filter"))


@extender_routes.post("/prioritize")
async def prioritize(request: Request) -> Response:
    """Score nodes for a pod."""
    return _json(await _calls(request).answer(request, "prioritize"))


@extender_routes.post("/preempt")
async def preempt(request: Request) -> Response:
    """Say on which nodes a pod would fit without its victims."""
    return _json(await _calls(request).answer(request, "preempt"))


@extender_routes.post("/bind")
async def bind(request: Request) -> Response:
    """Bind a pod to a node."""
    return _json(await _calls(request).bind(request))


other_names_routes.post("/predicates")(filter_nodes)
other_names_routes.post("/priorities")(prioritize)


def _calls(request: Request) -> SchedulerCalls:
    state: AppState = request.app.state.corral
    return state.offers.of(SchedulerCalls)


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")
