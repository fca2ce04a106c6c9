"""Turn every error into the JSON form that clients read, with its HTTP status."""

import json
import logging
from collections.abc import Collection, Mapping, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from corral.core.model.errors import (
    BackendFailed,
    Conflict,
    CorralError,
    Forbidden,
    LedgerFailed,
    NotFound,
    Refused,
    nearest,
)

RETRY_AFTER_S = "1"

log = logging.getLogger(__name__)


class Unauthenticated(Forbidden):
    """The caller is unknown: the token is missing or wrong."""


class TooLarge(Refused):
    """The request is larger than the server accepts."""


class Busy(BackendFailed):
    """The server has too many requests in progress. It did nothing for this request."""


# The first class that matches an error gives its status and kind.
_ANSWERS: tuple[tuple[type[CorralError], int, str], ...] = (
    (Unauthenticated, 401, "forbidden"),
    (NotFound, 404, "not_found"),
    (Forbidden, 403, "forbidden"),
    (TooLarge, 413, "refused"),
    (Refused, 422, "refused"),
    (Conflict, 409, "conflict"),
    (BackendFailed, 503, "backend"),
    (LedgerFailed, 503, "ledger"),
    (CorralError, 500, "internal"),
)


def error_body(
    message: str, *, kind: str, field: str | None = None, descriptions: Mapping[str, str] | None = None
) -> bytes:
    """The JSON of an error."""
    told: dict[str, object] = {"message": message, "field": field, "kind": kind}
    if descriptions:
        told["descriptions"] = dict(descriptions)
    return json.dumps({"error": told}).encode()


Methods = Mapping[str, Collection[str]]
"""The methods of each path, such as {"/jobs/{job_id}": ["GET"]}. The first path that matches counts."""


def add_error_handlers(app: Starlette, methods: Methods) -> None:
    """Answer every error of the application, expected or not, with `error_body`. `methods`: its paths and methods."""
    patterns = [(compile_path(path)[0], sorted(methods[path])) for path in methods]

    async def answer_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            # The router names only the methods of the first route, and a path may have several.
            at_path = next(known for pattern, known in patterns if pattern.match(request.url.path))
            return _answer_other_method(request, at_path)
        return _answer_http_exception(request, error, methods)

    app.add_exception_handler(CorralError, _answer_corral_error)
    app.add_exception_handler(HTTPException, answer_http_exception)
    app.add_exception_handler(Exception, _answer_fault)


def response_to(error: CorralError) -> Response:
    """The answer to an error: its message, its status and its kind."""
    status, kind = next((status, kind) for cls, status, kind in _ANSWERS if isinstance(error, cls))
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    if isinstance(error, Busy):
        headers = {"retry-after": RETRY_AFTER_S}
    if not isinstance(error, Refused):
        return _answer(str(error), status, kind, headers=headers)
    body = error_body(str(error), kind=kind, field=error.field, descriptions=error.descriptions)
    return Response(body, status, headers=headers, media_type="application/json")


async def _answer_corral_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, CorralError)
    return response_to(error)


def _answer_http_exception(request: Request, error: HTTPException, paths: Collection[str]) -> Response:
    if error.status_code == 404:
        path = request.url.path
        hint = nearest(path, paths)
        return _answer(f"there is no {path}; {hint}", 404, "not_found")
    return _answer(str(error.detail), error.status_code, "refused", headers=error.headers)


def _answer_other_method(request: Request, known: Sequence[str]) -> Response:
    headers = {"allow": ", ".join(known)}
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=headers)
    said = f"{request.url.path} does not accept {request.method}; use {' or '.join(known)}"
    return _answer(said, 405, "refused", headers=headers)


async def _answer_fault(request: Request, error: Exception) -> Response:
    log.error("bug in Corral: %s %s failed: %s: %s", request.method, request.url.path, type(error).__name__, error)
    said = "this is a bug in Corral, not in your request; the server's log (server.log in its home) has the details"
    return _answer(said, 500, "internal")


def _answer(message: str, status: int, kind: str, *, headers: Mapping[str, str] | None = None) -> Response:
    return Response(error_body(message, kind=kind), status, headers=headers, media_type="application/json")
