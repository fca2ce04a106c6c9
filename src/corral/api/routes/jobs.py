"""Routes about jobs: submit, list, explain and wait."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.long_answers import LongAnswers
from corral.api.answers.responses import gives
from corral.api.answers.streams import PiecewiseResponse
from corral.api.answers.waiting import LONGEST_WAIT_S, EndedJobs, wait_until
from corral.api.requests import shapes
from corral.api.requests.bodies import MAX_BATCH_BYTES, MAX_SUBMIT_BYTES
from corral.api.requests.origins import is_from_browser
from corral.api.requests.reading import read_body, read_query
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import Body, RouteTable
from corral.api.routing import AppState, RequestContext, answer, json_response, read_only, to_json
from corral.core.access.caller import Caller
from corral.core.model.answers.dry_run import DryRun
from corral.core.model.answers.job_details import Explanation, JobDetail
from corral.core.model.audience import Audience
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.job_choice import OWN
from corral.core.model.jobs.job_sort import parse_sort
from corral.core.model.jobs.name_pattern import check_name_patterns
from corral.core.model.jobs.submission import Submission
from corral.core.ports.ledger import JobQuery

_STREAMED_PAGE = 1000
_LONG_PAGE = 1000
"""A longer page takes Python a tenth of a second or more. Many of them would delay a stop and other requests."""

_LONG_PAGES = LongAnswers(at_once=2)
_DRY_RUNS = LongAnswers(at_once=2)
"""Each dry run computes its own forecast. It takes a tenth of a second or more with 10,000 waiting jobs."""

router = RouteTable("jobs")


@router.post(
    "/jobs",
    takes=Body(Submission, most_bytes=MAX_SUBMIT_BYTES),
    answers=gives(shapes.JobId, status=201),
)
async def submit(request: Request, context: RequestContext) -> Response:
    """Submit one job or array. The answer is sent when it is on disk."""
    submission = await read_body(request, Submission)
    (job_id,) = await context.submitter.submit((submission,), context.caller)
    accepted: dict[str, Any] = {"id": job_id}
    first_id = job_id
    array = submission.elements
    if array is not None:
        accepted["array_size"] = len(array.indices)
        first_id = f"{job_id}_{array.indices[0]}"
    state: AppState = request.app.state.corral
    if notes := [*context.service.queries.notes(first_id), *state.notes(submission, context.caller)]:
        accepted["notes"] = notes
    return json_response(accepted, 201)


@router.post(
    "/jobs/batch",
    takes=Body(shapes.JobBatch, most_bytes=MAX_BATCH_BYTES),
    answers=gives(shapes.JobIds, status=201),
)
async def submit_batch(request: Request, context: RequestContext) -> Response:
    """Submit all of these jobs, or none if one is refused."""
    batch = await read_body(request, shapes.JobBatch)
    if not 1 <= len(batch.jobs) <= shapes.MAX_BATCH:
        raise Refused(f"jobs: a batch must have 1 to {shapes.MAX_BATCH} jobs, not {len(batch.jobs)}", field="jobs")
    ids = await context.submitter.submit(batch.jobs, context.caller)
    return json_response({"ids": ids}, 201)


@router.post("/jobs/dry-run", takes=Body(Submission, most_bytes=MAX_SUBMIT_BYTES), answers=gives(DryRun))
@read_only
async def dry_run(request: Request, context: RequestContext) -> Response:
    """Tell whether and where a job would start now. Submits nothing."""
    submission = await read_body(request, Submission)
    (files,) = await context.submitter.inspect([submission], context.caller)
    told = await _DRY_RUNS.make(request, lambda: to_json(context.service.dry_run(submission, context.caller, files)))
    return Response(told, media_type="application/json")


@router.post("/jobs/adopt", takes=Body(shapes.AdoptRequest), answers=gives(shapes.JobId, status=201))
async def adopt(request: Request, context: RequestContext) -> Response:
    """Make a running process a job."""
    adoption = await read_body(request, shapes.AdoptRequest)
    submission = Submission(kind=JobKind.ADOPT, name=adoption.name, priority=adoption.priority)
    job_id = await on_worker(context.service.adopting.adopt, adoption.pid, context.caller, submission)
    return json_response({"id": job_id}, 201)


@router.post("/jobs/wait", takes=Body(shapes.WaitFor), answers=gives(shapes.WaitAnswer))
@read_only
async def wait(request: Request, context: RequestContext) -> Response:
    """Wait until all of these jobs have ended, or the time is up."""
    asked_for = await read_body(request, shapes.WaitFor)
    if not asked_for.timeout_s >= 0:
        raise Refused(f"timeout_s must be 0 or more, not {asked_for.timeout_s}", field="timeout_s")
    if len(asked_for.ids) > shapes.MAX_WAITED_FOR:
        raise Refused(
            f"ids: one request can wait for at most {shapes.MAX_WAITED_FOR} jobs, not {len(asked_for.ids)}", field="ids"
        )
    queries = context.service.queries
    with context.ends.waiter(asked_for.ids) as waiter:
        if asked_for.timeout_s > 0 and not await on_worker(queries.have_ended, asked_for.ids):
            done_now = partial(on_worker, EndedJobs(asked_for.ids, queries.is_live).all)
            await wait_until(done_now, waiter, context.ends, min(asked_for.timeout_s, LONGEST_WAIT_S))
        done, rows = await on_worker(queries.ended, asked_for.ids)
    return await answer(lambda: {"done": done, "jobs": rows})


@router.get("/jobs", query=shapes.JobsQuery, answers=gives(shapes.JobPage))
async def list_jobs(request: Request, context: RequestContext) -> Response:
    """List jobs, newest first."""
    asked_for = read_query(request, shapes.JobsQuery)
    if not 0 <= asked_for.limit <= shapes.MAX_PAGE:
        raise Refused(f"limit must be from 0 (all) to {shapes.MAX_PAGE}, not {asked_for.limit}", field="limit")
    query = _query(asked_for, context.caller)
    active_only = not (asked_for.all or asked_for.phase)
    listing = partial(_page, context, active_only, asked_for.starts, asked_for.means)
    if asked_for.limit and asked_for.limit <= _LONG_PAGE:
        rows, below = await on_worker(listing, query)
    else:
        rows, below = await _LONG_PAGES.make(request, partial(listing, query))
    if asked_for.limit or below is None:
        return Response(b'{"jobs":%b,"next":%b}' % (rows, to_json(below)), media_type="application/json")
    return PiecewiseResponse(_all_pages(request, listing, query, rows, below), media_type="application/json")


def _query(asked_for: shapes.JobsQuery, caller: Caller) -> JobQuery:
    """The query to the ledger for a listing. Raises Refused."""
    for name in ("user", "queue", "project", "namespace"):
        values = getattr(asked_for, name)
        if len(values) > shapes.MAX_VALUES:
            raise Refused(f"{name}: at most {shapes.MAX_VALUES} can be named, not {len(values)}", field=name)
    if asked_for.name is not None:
        check_name_patterns(asked_for.name)
    sort = None if asked_for.sort is None else parse_sort(asked_for.sort)
    if sort is not None and not asked_for.limit:
        raise Refused(
            "sort: an answer to limit=0 is always newest first; sort it yourself, or give a limit", field="sort"
        )
    if sort is not None and asked_for.before is not None:
        raise Refused("before: pages follow each other newest first; leave out sort, or before", field="before")
    return JobQuery(
        users=tuple(caller.user if user == OWN else user for user in asked_for.user),
        phases=tuple(dict.fromkeys(asked_for.phase)),
        array_id=asked_for.array,
        name=asked_for.name,
        limit=asked_for.limit or _STREAMED_PAGE,
        before_sequence=asked_for.before,
        queues=asked_for.queue,
        projects=asked_for.project,
        namespaces=asked_for.namespace,
        since=asked_for.since,
        sort=sort,
    )


@router.get("/jobs/{job_id}", answers=gives(JobDetail))
async def job(request: Request, context: RequestContext, job_id: str) -> Response:
    """Show one job: its request, its devices, its members and its attempts."""
    return await answer(context.service.details.of, job_id)


@router.get("/jobs/{job_id}/why", answers=gives(Explanation))
async def why(request: Request, context: RequestContext, job_id: str) -> Response:
    """Explain why a job waits, and when it is expected to start; for an ended job, the cause that the end of its log
    names."""
    audience = Audience.PAGE if is_from_browser(request) else Audience.COMMAND_LINE
    ask = partial(context.service.explanations.of, job_id, audience, admin=context.caller.admin)
    explanation = await on_worker(ask)
    if explanation.phase.terminal:
        # The explanation includes the end of the job's log, which may be on a node that hangs.
        call = partial(context.service.explanations.with_log_end, job_id, context.caller, audience)
        explanation = await context.log_threads.run(context.caller, call)
    return await answer(lambda: explanation)


def _page(
    context: RequestContext, active_only: bool, starts: bool, means: Means | None, query: JobQuery
) -> tuple[bytes, int | None]:
    rows, below = context.service.queries.jobs(query, active_only=active_only, starts=starts, means=means)
    return to_json(rows), below


async def _all_pages(
    request: Request,
    page: Callable[[JobQuery], tuple[bytes, int | None]],
    query: JobQuery,
    rows: bytes,
    below: int | None,
) -> AsyncIterator[bytes]:
    """The JSON of all jobs, made page by page, so that 100,000 rows do not block other requests.

    `rows` is the first page. The next page begins below the sequence number `below`.
    """
    yield b'{"jobs":[' + rows[1:-1]
    while below is not None:
        query = replace(query, before_sequence=below)
        rows, below = await _LONG_PAGES.make(request, partial(page, query))
        if len(rows) > 2:
            yield b"," + rows[1:-1]
    yield b'],"next":null}'
