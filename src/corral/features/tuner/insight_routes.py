"""Routes for the results of the autotuner's tasks, and for estimates of new tasks."""

from collections.abc import Callable
from enum import StrEnum

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.long_answers import LongAnswers
from corral.api.answers.responses import gives, gives_text
from corral.api.requests.reading import read_body, read_query
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer, read_only, to_json
from corral.core.model.errors import Refused, nearest
from corral.features.tuner import bodies
from corral.features.tuner.finding_answers import ExperimentSummaries, ServingPlan, TaskEstimate, TaskFindings
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.task_insight import TaskInsight

router = RouteTable("autotuner")

_LONG = LongAnswers(at_once=2)
"""Findings and exports of a task with 10,000 experiments take Python half a second."""


class ExportFormat(StrEnum):
    """The formats of an export: all experiments as CSV; the best one as YAML, a command line, or a manifest of OME."""

    CSV = "csv"
    YAML = "yaml"
    SUBMIT = "submit"
    OME = "ome"


_FILES = {
    ExportFormat.CSV: ("text/csv", "experiments.csv"),
    ExportFormat.YAML: ("application/yaml", "best.yaml"),
    ExportFormat.SUBMIT: ("text/plain", "submit.sh"),
    ExportFormat.OME: ("application/yaml", "ome.yaml"),
}


@router.post("/tasks/estimate", takes=Body(TuningSpec), answers=gives(TaskEstimate))
@read_only
async def estimate(request: Request, context: RequestContext) -> Response:
    """Estimate the most that a task would take, and check it. Nothing is stored."""
    spec = await read_body(request, TuningSpec)
    return await _long(request, lambda: to_json(context.of(TaskInsight).estimate(spec, context.caller)))


@router.get(
    "/tasks/{task_id}/experiments",
    query=bodies.SummariesQuery,
    answers=gives(ExperimentSummaries),
)
async def summaries(request: Request, context: RequestContext, task_id: str) -> Response:
    """List the experiments of a task in short, by number, a page at a time."""
    query = read_query(request, bodies.SummariesQuery)
    return await answer(
        context.of(TaskInsight).summaries, task_id, context.caller, after=query.after, limit=query.limit
    )


@router.get("/tasks/{task_id}/findings", answers=gives(TaskFindings))
async def findings(request: Request, context: RequestContext, task_id: str) -> Response:
    """Show the findings of a task so far: the importance of parameters, the experiments that no other beats, and the
    best one."""
    return await _long(request, lambda: to_json(context.of(TaskInsight).findings(task_id, context.caller)))


@router.get("/tasks/{task_id}/serving", query=bodies.ServingQuery, answers=gives(ServingPlan))
async def serving(request: Request, context: RequestContext, task_id: str) -> Response:
    """Show how to serve the model as the best experiment did, or another one: the command, and the model service."""
    query = read_query(request, bodies.ServingQuery)
    return await answer(context.of(TaskInsight).serving, task_id, query.experiment, context.caller)


@router.get(
    "/tasks/{task_id}/export/{form}",
    answers=gives_text("text/plain", "The file; its type goes by the format: csv, yaml, submit or ome."),
)
async def export(request: Request, context: RequestContext, task_id: str, form: str) -> Response:
    """Send the results of a task as a file: all experiments (csv), or the best one (yaml, submit, ome)."""
    if form not in _FILES:
        raise Refused(f"there is no format {form!r:.40}; {nearest(form, [*_FILES])}", field="form")
    media_type, name = _FILES[ExportFormat(form)]
    insight, caller = context.of(TaskInsight), context.caller

    def made() -> bytes:
        whole = form == ExportFormat.CSV
        return (insight.table(task_id, caller) if whole else insight.winner(task_id, form, caller)).encode()

    return await _long(request, made, media_type, {"Content-Disposition": f'attachment; filename="task-{name}"'})


async def _long(
    request: Request,
    make: Callable[[], bytes],
    media_type: str = "application/json",
    headers: dict[str, str] | None = None,
) -> Response:
    return Response(await _LONG.make(request, make), media_type=media_type, headers=headers)
