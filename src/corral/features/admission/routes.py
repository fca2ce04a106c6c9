"""The routes that an API server calls. It can show a certificate, and no token of this server."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.errors import response_to
from corral.api.route_table import RouteTable
from corral.api.routing import AppState
from corral.core.model.errors import CorralError
from corral.features.admission.admission_calls import AdmissionCalls

router = RouteTable("admission webhook", prefix="/admission", open_to_all=True)


@router.post("/mutate")
async def mutate(request: Request) -> Response:
    """Say what to set in a pod that is to be created."""
    return await _answered(request, "mutate")


@router.post("/validate")
async def validate(request: Request) -> Response:
    """Say whether a pod that is to be created can ever run."""
    return await _answered(request, "validate")


async def _answered(request: Request, verb: str) -> Response:
    state: AppState = request.app.state.corral
    try:
        answer = await state.offers.of(AdmissionCalls).answer(request, verb)
    except CorralError as error:
        # API servers tell why they are refused only if it is plain text.
        return Response(str(error), response_to(error).status_code, media_type="text/plain")
    return Response(answer, media_type="application/json")
