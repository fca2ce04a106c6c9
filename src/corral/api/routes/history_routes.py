"""The routes for the history of devices, jobs, nodes, users and projects.

Everybody who may read can see all of them, as they can see all jobs and the usage of all users.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.reading import read_query
from corral.api.route_table import RouteTable
from corral.api.routing import AppState, RequestContext, answer
from corral.core.model.answers.history import DeviceHistory, GroupHistory, JobGpusHistory, JobHistory
from corral.history.asking import HistoryQueries

router = RouteTable("devices and server")


@router.get(
    "/history/devices/{uuid:path}",
    query=shapes.HistoryQuery,
    answers=gives(DeviceHistory),
)
async def device_history(request: Request, context: RequestContext, uuid: str) -> Response:
    """Show the readings of a device over a period, also of a device that is gone: at most 1,000 points a series."""
    return await answer(_history(request).device, uuid, **_period(request))


@router.get(
    "/history/jobs/{job_id}",
    query=shapes.HistoryQuery,
    answers=gives(JobHistory),
)
async def job_history(request: Request, context: RequestContext, job_id: str) -> Response:
    """Show the readings of a job's devices while it had them; by default from its last start to its end, or to now."""
    return await answer(_of_job, _history(request), context, job_id, _period(request))


@router.get(
    "/history/jobs/{job_id}/gpus",
    query=shapes.HistoryQuery,
    answers=gives(JobGpusHistory),
)
async def job_gpus_history(request: Request, context: RequestContext, job_id: str) -> Response:
    """Show the readings of each GPU of a job in its last attempt; for more than 16 GPUs the least, mean and most of
    all."""
    return await answer(_of_job_gpus, _history(request), context, job_id, _period(request))


@router.get(
    "/history/nodes/{name:path}",
    query=shapes.HistoryQuery,
    answers=gives(GroupHistory),
)
async def node_history(request: Request, context: RequestContext, name: str) -> Response:
    """Show the combined readings of the devices of a node, also of a node that is gone."""
    return await answer(_history(request).group, "node", name, **_period(request))


@router.get(
    "/history/users/{name:path}",
    query=shapes.HistoryQuery,
    answers=gives(GroupHistory),
)
async def user_history(request: Request, context: RequestContext, name: str) -> Response:
    """Show the combined readings of the devices that the jobs of a user had."""
    return await answer(_history(request).group, "user", name, **_period(request))


@router.get(
    "/history/projects/{name:path}",
    query=shapes.HistoryQuery,
    answers=gives(GroupHistory),
)
async def project_history(request: Request, context: RequestContext, name: str) -> Response:
    """Show the combined readings of the devices that the jobs of a project had."""
    return await answer(_history(request).group, "project", name, **_period(request))


def _history(request: Request) -> HistoryQueries:
    state: AppState = request.app.state.corral
    return state.history


def _period(request: Request) -> dict[str, Any]:
    """The period and series in the query string, as arguments for the history. Raises Refused."""
    wanted = read_query(request, shapes.HistoryQuery)
    return {"range_name": wanted.range, "start": wanted.from_, "end": wanted.to, "series": wanted.series}


def _of_job(history: HistoryQueries, context: RequestContext, job_id: str, period: dict[str, Any]) -> JobHistory:
    return history.job(context.service.queries.find(job_id), **period)


def _of_job_gpus(
    history: HistoryQueries, context: RequestContext, job_id: str, period: dict[str, Any]
) -> JobGpusHistory:
    return history.job_gpus(*context.service.details.monitored(job_id), **period)
