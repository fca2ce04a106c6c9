"""Routes of the pages: their files, the link that opens them, and the session of a browser."""

from anyio import to_thread
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from corral.access.caller import Caller
from corral.api import shapes
from corral.api.bodies import Intake
from corral.api.errors import Unauthenticated
from corral.api.pages import cookies
from corral.api.pages.files import PageFile, is_page
from corral.api.pages.links import VALID_S
from corral.api.reading import read_body
from corral.api.responses import gives, gives_nothing
from corral.api.route_table import Body, RouteTable
from corral.api.routing import AppState, RequestContext, json_response
from corral.control.querying.wall_times import in_wall_time
from corral.model.answers.tokens import PageLink, PageSession
from corral.model.errors import Conflict, Refused
from corral.model.token import TokenScope

router = RouteTable("pages")
login_router = RouteTable("pages", open_to_all=True)
"""What needs no session, because it begins or ends one."""


class PagePath(StringConvertor):
    """Every path that is not one of the API's, so that those keep their own answers to what does not exist."""

    regex = "(?!(?:api|graphql|metrics)(?:/|$)).*"


register_url_convertor("page", PagePath())
file_router = RouteTable(open_to_all=True)

_MOST_LOGIN_BYTES = 4096
_NOT_BUILT = "The pages of this server were not built. Run `make web` where it was set up from, and restart it.\n"

# Besides those of every answer (answer_headers.py).
_SECURITY_HEADERS = {
    # React and charts set styles of elements, so inline styles are allowed; scripts are not.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


@router.post("/dashboard", answers=gives(PageLink, status=201))
async def link(request: Request, context: RequestContext) -> Response:
    """Make a link that opens the pages in a browser of the server's machine, as the caller. It works once."""
    pages = _state(request).pages
    if not pages.files.built:
        raise Conflict(_NOT_BUILT.strip())
    url = await pages.listener.url()
    return json_response(PageLink(f"{url}/login#{pages.links.make(context.caller)}", VALID_S), 201)


@router.get("/session", answers=gives(PageSession))
async def session(request: Request, context: RequestContext) -> Response:
    """Tell who the caller is, and what they may do."""
    return json_response(_session(request, context.caller))


@login_router.post("/session", takes=Body(shapes.Login, most_bytes=_MOST_LOGIN_BYTES), answers=gives(PageSession))
async def login(request: Request) -> Response:
    """Begin the session of a browser with the code of a link, or with a token, and answer with a cookie."""
    cookies.must_be_own(request)
    wanted = await _login_body(request)
    if (wanted.code is None) == (wanted.token is None):
        raise Refused("a session begins with the code of a link or with a token; send one of them")
    state = _state(request)
    if wanted.code is None:
        kind, secret = cookies.Kind.TOKEN, wanted.token or ""
    else:
        kind, secret = cookies.Kind.LINK, await _token_for(wanted.code, state)
    caller = await state.authenticator.holder_of(secret)
    await _end_session(request)
    response = json_response(_session(request, caller))
    response.headers["set-cookie"] = cookies.made(kind, secret, request)
    return response


@login_router.delete("/session", answers=gives_nothing("The session has ended."))
async def logout(request: Request) -> Response:
    """End the session of a browser. A token that a link made ends with it; one that was pasted stays valid."""
    await _end_session(request)
    return Response(status_code=204, headers={"set-cookie": cookies.removed(request)})


@file_router.get("/{path:page}")
async def page(request: Request, path: str) -> Response:
    """Send a file of the pages; the page itself for an address within it."""
    files = _state(request).pages.files
    if not files.built and is_page(path):
        return PlainTextResponse(_NOT_BUILT, 503)
    found = files.find(path)
    if found is None:
        raise HTTPException(404)
    return _sent(request, found)


def _sent(request: Request, file: PageFile) -> Response:
    keep = "public, max-age=31536000, immutable" if file.for_good else "no-cache"
    headers = {**_SECURITY_HEADERS, "etag": file.etag, "cache-control": keep, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, headers=headers | {"content-encoding": "gzip"}, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)


async def _end_session(request: Request) -> None:
    """Revoke the token that a link made for the session of this browser, if it has one."""
    kind, secret = cookies.read(request) or (cookies.Kind.TOKEN, "")
    if kind is not cookies.Kind.LINK:
        return
    state = _state(request)
    try:
        caller = await state.authenticator.holder_of(secret)
    except Unauthenticated:
        return
    if caller.token is not None:
        await to_thread.run_sync(state.token_issuer.revoke, caller.token.id, caller)


async def _login_body(request: Request) -> shapes.Login:
    # Nobody is known yet: what arrives counts for one user that all of them are.
    request.scope["state"]["intake"] = intake = Intake(_state(request).in_flight, "", _MOST_LOGIN_BYTES)
    try:
        intake.refuse_announced(request)
        return await read_body(request, shapes.Login)
    finally:
        intake.close()


async def _token_for(code: str, state: AppState) -> str:
    """The secret of a new token for whoever asked for the link."""
    caller = state.pages.links.take(code)
    if caller is None:
        raise Unauthenticated("this link was used or is too old; make another with `corral dashboard`")
    # The kernel names callers without a token, who may do all that they may: for most that is to submit.
    scope = TokenScope.SUBMIT if caller.scope is TokenScope.ADMIN and not caller.admin else caller.scope
    made = await to_thread.run_sync(state.token_issuer.make, None, scope, float(cookies.LONGEST_S), caller)
    return made.token


def _session(request: Request, caller: Caller) -> PageSession:
    expires_at = None if caller.token is None else caller.token.expires_at
    found = PageSession(caller.user, caller.admin, caller.overseer, caller.scope, expires_at)
    return in_wall_time(found, _state(request).pages.clock)


def _state(request: Request) -> AppState:
    state: AppState = request.app.state.corral
    return state
