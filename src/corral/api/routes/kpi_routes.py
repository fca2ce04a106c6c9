"""The route for key figures of the pool and of its parts."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.long_answers import LongAnswers
from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.reading import read_query
from corral.api.route_table import RouteTable
from corral.api.routing import AppState, RequestContext, to_json
from corral.core.model.answers.kpis import Kpis

router = RouteTable("devices and server")

_KPIS = LongAnswers()
"""The key figures of a year take a second of database time."""


@router.get("/kpis", query=shapes.KpiQuery, answers=gives(Kpis))
async def kpis(request: Request, context: RequestContext) -> Response:
    """Tell key figures of a stretch of time: use of GPUs, how jobs fared, health; each with its unit and formula."""
    wanted = read_query(request, shapes.KpiQuery)
    state: AppState = request.app.state.corral

    def made() -> bytes:
        found = state.key_figures.kpis(wanted.by, range_name=wanted.range, start=wanted.from_, end=wanted.to)
        return to_json(found)

    return Response(await _KPIS.make(request, made), media_type="application/json")
