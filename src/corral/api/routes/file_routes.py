"""Routes about files of users: directories that are sent with jobs, and those that come back."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from corral.api.answers.responses import gives
from corral.api.requests import shapes
from corral.api.requests.bodies import Intake
from corral.api.requests.reading import read_body, read_query
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import Body, RouteTable
from corral.api.routing import RequestContext, answer, json_response, read_only
from corral.core.access.caller import Caller
from corral.core.model.answers.files import Contents, LeftFiles, UploadedTree
from corral.core.model.files.tree import CHUNK_BYTES, MAX_TREE_BYTES
from corral.trees.text import MOST_IN_PACK, tree_of, unpacked

MOST_PACK_BYTES = CHUNK_BYTES + 8 * MOST_IN_PACK
MOST_DIGESTS_BYTES = 256 * 1024

router = RouteTable("jobs")


@router.get("/uploads", answers=gives(shapes.UploadLimits))
async def upload_limits(request: Request, context: RequestContext) -> Response:
    """Tell how large a directory may be that is sent for a job."""
    return json_response(shapes.UploadLimits(context.service.uploads.most_bytes))


@router.post("/uploads", takes=Body(None, most_bytes=MAX_TREE_BYTES), answers=gives(UploadedTree))
async def keep_tree(request: Request, context: RequestContext) -> Response:
    """Keep a directory for jobs of the caller: the JSON of its tree, {"entries": [...]}. The answer says which contents
    are missing; send those, and then the tree again. A submission names it by the answer's `tree`."""
    intake: Intake = request.scope["state"]["intake"]
    text = await intake.bytes_of(request)
    return await answer(_keep, context, text)


def _keep(context: RequestContext, text: bytes) -> UploadedTree:
    return context.service.uploads.keep(tree_of(text), context.caller)


@router.post("/uploads/contents", takes=Body(None, most_bytes=MOST_PACK_BYTES), answers=gives(shapes.Accepted))
async def add_contents(request: Request, context: RequestContext) -> Response:
    """Keep contents of files of the caller: for each its length in four bytes, highest first, then the content."""
    intake: Intake = request.scope["state"]["intake"]
    contents = unpacked(await intake.bytes_of(request))
    await on_worker(context.service.uploads.add, contents, context.caller)
    return json_response(shapes.Accepted(len(contents)))


@router.get("/jobs/{job_id}/files", query=shapes.RankQuery, answers=gives(LeftFiles))
async def files_left(request: Request, context: RequestContext, job_id: str) -> Response:
    """List the directory that a job has left for its user, or tell whether there will be one."""
    asked_for = read_query(request, shapes.RankQuery)
    call = partial(context.service.files_left.of, job_id, asked_for.rank, context.caller)
    found = await context.log_threads.run(context.caller, call)
    return await answer(lambda: found)


@router.post(
    "/jobs/{job_id}/files/contents",
    takes=Body(shapes.ContentsOf, most_bytes=MOST_DIGESTS_BYTES),
    answers=gives(Contents),
)
@read_only
async def contents_left(request: Request, context: RequestContext, job_id: str) -> Response:
    """Return the first of these contents of the directory, as many as fit into one answer."""
    asked_for = await read_body(request, shapes.ContentsOf)
    found = await context.log_threads.run(context.caller, partial(_read, context, job_id, asked_for, context.caller))
    return await answer(lambda: found)


def _read(context: RequestContext, job_id: str, asked_for: shapes.ContentsOf, caller: Caller) -> Contents:
    return Contents(context.service.files_left.read(job_id, asked_for.rank, asked_for.digests, caller))
