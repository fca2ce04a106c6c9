"""The route of reports. Who sends one shows a token of the cluster, and none of this server."""

from starlette.requests import Request
from starlette.responses import Response

from corral.api.route_table import RouteTable
from corral.api.routing import AppState
from corral.features.agent_reports.report_calls import ReportCalls

router = RouteTable("agents on nodes", open_to_all=True)


@router.post("/agent-reports")
async def take_report(request: Request) -> Response:
    """Take the report of the agent on a node."""
    state: AppState = request.app.state.corral
    await state.offers.of(ReportCalls).take(request)
    return Response(status_code=204)
