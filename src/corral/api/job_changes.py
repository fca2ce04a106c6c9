"""Routes by which jobs are changed: one or an array by its id, or many in one request."""

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.api import shapes
from corral.api.openapi import gives, takes
from corral.api.reading import read_body
from corral.api.routing import Context, ContextRoute, RequestContext, answer, json_response
from corral.control.job_changes import Verb
from corral.model.answers.job_changes import ChangedJobs
from corral.model.job_choice import JobChoice
from corral.model.job_update import JobUpdate

router = APIRouter(tags=["jobs"], route_class=ContextRoute)

MOST_BYTES = 1024 * 1024
"""Ten thousand ids."""

_BODY = takes(JobChoice, most_bytes=MOST_BYTES)
_CHANGED = gives(ChangedJobs)


@router.post("/jobs/cancel", openapi_extra=_BODY, responses=_CHANGED)
async def cancel_many(request: Request, context: Context) -> Response:
    """Cancel all jobs that are named or chosen."""
    return await _change_many(Verb.CANCEL, request, context)


@router.post("/jobs/hold", openapi_extra=_BODY, responses=_CHANGED)
async def hold_many(request: Request, context: Context) -> Response:
    """Put all jobs on hold that are named or chosen."""
    return await _change_many(Verb.HOLD, request, context)


@router.post("/jobs/release", openapi_extra=_BODY, responses=_CHANGED)
async def release_many(request: Request, context: Context) -> Response:
    """Let all jobs start that are named or chosen. Reservations end, where their ids are given."""
    return await _change_many(Verb.RELEASE, request, context)


@router.post("/jobs/requeue", openapi_extra=_BODY, responses=_CHANGED)
async def requeue_many(request: Request, context: Context) -> Response:
    """Run all jobs again that are named or chosen: of the latter those that failed or were lost."""
    return await _change_many(Verb.REQUEUE, request, context)


@router.patch("/jobs/{job_id}", openapi_extra=takes(JobUpdate), responses=gives(shapes.JobIds))
async def update(request: Request, context: Context, job_id: str) -> Response:
    """Change the priority, time limit, name or queue of a job, or of an array's elements that have not ended."""
    asked = await read_body(request, JobUpdate)
    ids = await to_thread.run_sync(context.service.updating.update, job_id, asked, context.caller)
    return json_response({"ids": ids})


@router.post("/jobs/{job_id}/cancel", responses=gives(shapes.JobIds))
async def cancel(request: Request, context: Context, job_id: str) -> Response:
    """End a job, or every element of an array."""
    return await _change(Verb.CANCEL, context, job_id)


@router.post("/jobs/{job_id}/hold", responses=gives(shapes.JobIds))
async def hold(request: Request, context: Context, job_id: str) -> Response:
    """Keep a waiting job from starting."""
    return await _change(Verb.HOLD, context, job_id)


@router.post("/jobs/{job_id}/release", responses=gives(shapes.JobIds))
async def release(request: Request, context: Context, job_id: str) -> Response:
    """Let a held job start."""
    return await _change(Verb.RELEASE, context, job_id)


@router.post("/jobs/{job_id}/requeue", responses=gives(shapes.JobIds))
async def requeue(request: Request, context: Context, job_id: str) -> Response:
    """Run a job once more."""
    return await _change(Verb.REQUEUE, context, job_id)


async def _change(verb: Verb, context: RequestContext, job_id: str) -> Response:
    return json_response({"ids": await to_thread.run_sync(context.service.changes.one, verb, job_id, context.caller)})


async def _change_many(verb: Verb, request: Request, context: RequestContext) -> Response:
    choice = await read_body(request, JobChoice)
    return await answer(context.service.changes.many, verb, choice, context.caller)
