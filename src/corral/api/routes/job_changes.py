"""Routes that change jobs: a job or an array by its id, or many jobs in one request."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.reading import read_body
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer, json_response
from corral.core.control.changing.job_changes import Verb
from corral.core.model.answers.job_changes import ChangedJobs
from corral.core.model.jobs.job_choice import JobChoice
from corral.core.model.jobs.job_update import JobUpdate

router = RouteTable("jobs")

MOST_BYTES = 1024 * 1024
"""Room for ten thousand ids."""

_DOES_TO_MANY = {
    Verb.CANCEL: "Cancel all jobs that the body names or selects.",
    Verb.HOLD: "Put all jobs on hold that the body names or selects.",
    Verb.RELEASE: "Let all jobs start that the body names or selects. Reservations named by their ids end.",
    Verb.REQUEUE: "Run all jobs again that the body names or selects. Of the selected jobs only those that "
    "failed or were lost run again.",
}
_DOES_TO_ONE = {
    Verb.HOLD: "Keep a waiting job from starting.",
    Verb.RELEASE: "Let a held job start.",
    Verb.REQUEUE: "Run a job once more.",
}


@router.patch("/jobs/{job_id}", takes=Body(JobUpdate), answers=gives(shapes.JobIds))
async def update(request: Request, context: RequestContext, job_id: str) -> Response:
    """Change the priority, time limit, name or queue of a job, or of an array's elements that have not ended."""
    asked = await read_body(request, JobUpdate)
    ids = await on_worker(context.service.updating.update, job_id, asked, context.caller)
    return json_response({"ids": ids})


@router.post("/jobs/{job_id}/cancel", takes=Body(shapes.Cancellation), answers=gives(shapes.JobIds))
async def cancel(request: Request, context: RequestContext, job_id: str) -> Response:
    """End a job, or every element of an array."""
    reason = (await read_body(request, shapes.Cancellation)).reason
    ids = await on_worker(context.service.changes.one, Verb.CANCEL, job_id, context.caller, reason)
    return json_response({"ids": ids})


def _change_many(verb: Verb) -> Callable[..., Awaitable[Response]]:
    async def change(request: Request, context: RequestContext) -> Response:
        choice = await read_body(request, JobChoice)
        return await answer(context.service.changes.many, verb, choice, context.caller)

    return change


def _change_one(verb: Verb) -> Callable[..., Awaitable[Response]]:
    async def change(request: Request, context: RequestContext, job_id: str) -> Response:
        ids = await on_worker(context.service.changes.one, verb, job_id, context.caller)
        return json_response({"ids": ids})

    return change


for verb, does in _DOES_TO_MANY.items():
    router.add(
        "POST",
        f"/jobs/{verb}",
        _change_many(verb),
        name=f"{verb}_many",
        does=does,
        takes=Body(JobChoice, most_bytes=MOST_BYTES),
        answers=gives(ChangedJobs),
    )
for verb, does in _DOES_TO_ONE.items():
    router.add(
        "POST",
        f"/jobs/{{job_id}}/{verb}",
        _change_one(verb),
        name=verb.value,
        does=does,
        answers=gives(shapes.JobIds),
    )
