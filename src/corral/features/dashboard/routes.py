"""Routes of the pages: their files, the link that opens them, and the session of a browser."""

from functools import partial

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from corral.api.answers.errors import Unauthenticated
from corral.api.answers.responses import gives, gives_nothing
from corral.api.requests.bodies import Intake
from corral.api.requests.reading import read_body
from corral.api.requests.request_turns import answer_for
from corral.api.requests.user_threads import on_worker
from corral.api.route_table import Body, RouteTable
from corral.api.routing import AppState, RequestContext, json_response
from corral.core.access.caller import Caller
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.model.errors import Conflict, Forbidden, Refused
from corral.core.model.token import TokenScope
from corral.features.dashboard import cookies
from corral.features.dashboard.answers import PageLink, PageSession
from corral.features.dashboard.bodies import Login
from corral.features.dashboard.dashboard import Dashboard
from corral.features.dashboard.login_links import VALID_S
from corral.features.dashboard.page_files import PageFile, is_page

router = RouteTable("pages")
login_router = RouteTable("pages", open_to_all=True)
"""The routes that need no session, because they begin or end one."""


class PagePath(StringConvertor):
    """Every path outside the API. Paths of the API keep the API's answers, also to paths that do not exist."""

    regex = "(?!(?:api|graphql|metrics)(?:/|$)).*"


register_url_convertor("page", PagePath())
file_router = RouteTable(prefix="", open_to_all=True)

_MOST_LOGIN_BYTES = 4096
_NOT_BUILT = (
    "The pages of this server were not built. Run `make web` in the checkout that it was installed "
    "from, and restart it.\n"
)

# These headers come in addition to those of every answer (`corral.api.app`).
_SECURITY_HEADERS = {
    # React and the charts set styles of elements, so inline styles are allowed. Inline scripts are not.
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
    pages = context.of(Dashboard)
    if not pages.files.built:
        raise Conflict(_NOT_BUILT.strip())
    url = await pages.listener.url()
    return json_response(PageLink(f"{url}/login#{pages.links.make(context.caller)}", VALID_S), 201)


@router.get("/session", answers=gives(PageSession))
async def session(request: Request, context: RequestContext) -> Response:
    """Show the caller and their rights."""
    return json_response(_session(request, context.caller))


@login_router.post("/session", takes=Body(Login, most_bytes=_MOST_LOGIN_BYTES), answers=gives(PageSession))
async def login(request: Request) -> Response:
    """Begin the session of a browser with the code of a link, or with a token, and answer with a cookie."""
    state, pages = _state(request), _pages(request)
    cookies.must_be_own(request, pages.proxied_host)
    way = cookies.way(request)
    wanted = await _login_body(request)
    if (wanted.code is None) == (wanted.token is None):
        raise Refused("a session begins with the code of a link or with a token; send one of them")
    if wanted.code is not None:
        asked = pages.links.take(wanted.code)
        if asked is None:
            raise Unauthenticated("this link was used or is too old; make another with `corral dashboard`")
    else:
        asked = await state.authenticator.holder_of(wanted.token or "")
    cookies.must_be_of(asked, request)
    secret = await _begun_session(asked, request, way)
    caller = await state.authenticator.session_of(secret, request, pages)
    await _end_session(request)
    response = json_response(_session(request, caller))
    response.headers["set-cookie"] = cookies.made(secret, request)
    return response


@login_router.delete("/session", answers=gives_nothing("The session has ended."))
async def logout(request: Request) -> Response:
    """End the session of a browser. A token that it was begun with stays valid."""
    await _end_session(request)
    return Response(status_code=204, headers={"set-cookie": cookies.removed(request)})


@file_router.get("/{path:page}")
async def page(request: Request, path: str) -> Response:
    """Send a file of the pages, or the HTML page if the path is an address of a page."""
    files = _pages(request).files
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
    """Revoke the token of this browser's session, if it has one that is valid here."""
    state, pages = _state(request), _pages(request)
    secret = pages.secret_in(request)
    if secret is None:
        return
    try:
        caller = await state.authenticator.session_of(secret, request, pages)
    except Forbidden:
        # The session is unknown, has ended, or belongs to another user of this machine, who keeps it.
        return
    if caller.token is not None:
        answer_for(caller.user)
        await on_worker(state.token_issuer.revoke, caller.token.id, caller)


async def _login_body(request: Request) -> Login:
    # No user is known yet. All such requests share one limit, that of the user "".
    request.scope["state"]["intake"] = intake = Intake(_state(request).in_flight, "", _MOST_LOGIN_BYTES)
    try:
        intake.refuse_announced(request)
        return await read_body(request, Login)
    finally:
        intake.close()


async def _begun_session(caller: Caller, request: Request, way: cookies.Way) -> str:
    """Make a session for this caller and return its secret."""
    # A caller without a token has the scope ADMIN. A session of a user who is no administrator gets SUBMIT.
    scope = TokenScope.SUBMIT if caller.scope is TokenScope.ADMIN and not caller.admin else caller.scope
    digest = partial(cookies.digest, by=way)
    make = partial(_state(request).token_issuer.make, None, scope, float(cookies.LONGEST_S), caller, digest=digest)
    answer_for(caller.user)
    made = await on_worker(make)
    return made.token


def _session(request: Request, caller: Caller) -> PageSession:
    expires_at = None if caller.token is None else caller.token.expires_at
    found = PageSession(caller.user, caller.admin, caller.overseer, caller.scope, expires_at)
    return in_wall_time(found, _pages(request).clock)


def _state(request: Request) -> AppState:
    state: AppState = request.app.state.corral
    return state


def _pages(request: Request) -> Dashboard:
    return _state(request).offers.of(Dashboard)
