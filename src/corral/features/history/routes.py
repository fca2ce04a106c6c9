"""The routes for the history of devices, jobs, nodes, users and projects, and for key figures.

Everybody who may read can see all of them, as they can see all jobs and the usage of all users.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.long_answers import LongAnswers
from corral.api.answers.responses import gives
from corral.api.requests.reading import read_query
from corral.api.route_table import RouteTable
from corral.api.routing import RequestContext, answer, to_json
from corral.features.history import bodies
from corral.features.history.answers import DeviceHistory, GpuWindows, GroupHistory, JobGpusHistory, JobHistory, Kpis
from corral.features.history.asking import HistoryQueries
from corral.features.history.key_figures import KeyFigures

router = RouteTable("devices and server")

_KPIS = LongAnswers()
"""The key figures of a year take a second of database time."""


@router.get("/history/devices/{uuid:path}", query=bodies.HistoryQuery, answers=gives(DeviceHistory))
async def device_history(request: Request, context: RequestContext, uuid: str) -> Response:
    """Show the readings of a device over a period, also of a device that is gone: at most 1,000 points a series."""
    return await answer(context.of(HistoryQueries).device, uuid, **_period(request))


@router.get("/history/jobs/{job_id}", query=bodies.HistoryQuery, answers=gives(JobHistory))
async def job_history(request: Request, context: RequestContext, job_id: str) -> Response:
    """Show the readings of a job's devices while it had them; by default from its last start to its end, or to now."""
    return await answer(_of_job, context.of(HistoryQueries), context, job_id, _period(request))


@router.get("/history/jobs/{job_id}/gpus", query=bodies.HistoryQuery, answers=gives(JobGpusHistory))
async def job_gpus_history(request: Request, context: RequestContext, job_id: str) -> Response:
    """Show the readings of each GPU of a job in its last attempt; for more than 16 GPUs the least, mean and most of
    all."""
    return await answer(_of_job_gpus, context.of(HistoryQueries), context, job_id, _period(request))


@router.get("/history/windows/jobs/{job_id}", query=bodies.WindowQuery, answers=gives(GpuWindows))
async def job_window(request: Request, context: RequestContext, job_id: str) -> Response:
    """Sum the readings of each GPU of a job, in its last attempt, over exactly one window."""
    return await answer(_job_window, context.of(HistoryQueries), context, job_id, _window(request))


@router.get("/history/windows/devices/{uuid:path}", query=bodies.WindowQuery, answers=gives(GpuWindows))
async def device_window(request: Request, context: RequestContext, uuid: str) -> Response:
    """Sum the readings of a device over exactly one window. Its label is its UUID."""
    return await answer(context.of(HistoryQueries).device_window, uuid, _window(request))


@router.get("/history/nodes/{name:path}", query=bodies.HistoryQuery, answers=gives(GroupHistory))
async def node_history(request: Request, context: RequestContext, name: str) -> Response:
    """Show the combined readings of the devices of a node, also of a node that is gone."""
    return await answer(context.of(HistoryQueries).group, "node", name, **_period(request))


@router.get("/history/users/{name:path}", query=bodies.HistoryQuery, answers=gives(GroupHistory))
async def user_history(request: Request, context: RequestContext, name: str) -> Response:
    """Show the combined readings of the devices that the jobs of a user had."""
    return await answer(context.of(HistoryQueries).group, "user", name, **_period(request))


@router.get("/history/projects/{name:path}", query=bodies.HistoryQuery, answers=gives(GroupHistory))
async def project_history(request: Request, context: RequestContext, name: str) -> Response:
    """Show the combined readings of the devices that the jobs of a project had."""
    return await answer(context.of(HistoryQueries).group, "project", name, **_period(request))


@router.get("/kpis", query=bodies.KpiQuery, answers=gives(Kpis))
async def kpis(request: Request, context: RequestContext) -> Response:
    """Tell key figures of a stretch of time: use of GPUs, how jobs fared, health; each with its unit and formula."""
    wanted = read_query(request, bodies.KpiQuery)
    figures = context.of(KeyFigures)

    def made() -> bytes:
        found = figures.kpis(wanted.by, range_name=wanted.range, start=wanted.from_, end=wanted.to)
        return to_json(found)

    return Response(await _KPIS.make(request, made), media_type="application/json")


def _period(request: Request) -> dict[str, Any]:
    """The period and series in the query string, as arguments for the history. Raises Refused."""
    wanted = read_query(request, bodies.HistoryQuery)
    return {"range_name": wanted.range, "start": wanted.from_, "end": wanted.to, "series": wanted.series}


def _of_job(history: HistoryQueries, context: RequestContext, job_id: str, period: dict[str, Any]) -> JobHistory:
    return history.job(context.service.queries.find(job_id), **period)


def _window(request: Request) -> tuple[float, float]:
    wanted = read_query(request, bodies.WindowQuery)
    return wanted.from_, wanted.to


def _job_window(
    history: HistoryQueries, context: RequestContext, job_id: str, window: tuple[float, float]
) -> GpuWindows:
    return history.job_window(*context.service.details.monitored(job_id), window)


def _of_job_gpus(
    history: HistoryQueries, context: RequestContext, job_id: str, period: dict[str, Any]
) -> JobGpusHistory:
    return history.job_gpus(*context.service.details.monitored(job_id), **period)
