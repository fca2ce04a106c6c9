"""Every way in which a request can fail, as the one form of answer that clients read."""

import json
import logging
from collections.abc import Collection, Mapping

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from corral.model.errors import (
    BackendFailed,
    Conflict,
    CorralError,
    Forbidden,
    LedgerFailed,
    NotFound,
    Refused,
    nearest,
)

log = logging.getLogger(__name__)


class Unauthenticated(Forbidden):
    """Nobody is known to be asking: the token is missing or wrong."""


# The first class that an error is an instance of gives its status and kind.
_ANSWERS: tuple[tuple[type[CorralError], int, str], ...] = (
    (Unauthenticated, 401, "forbidden"),
    (NotFound, 404, "not_found"),
    (Forbidden, 403, "forbidden"),
    (Refused, 422, "refused"),
    (Conflict, 409, "conflict"),
    (BackendFailed, 503, "backend"),
    (LedgerFailed, 503, "ledger"),
    (CorralError, 500, "internal"),
)


def error_body(message: str, *, kind: str, field: str | None = None) -> bytes:
    """The JSON of an answer that says no."""
    return json.dumps({"error": {"message": message, "field": field, "kind": kind}}).encode()


def add_error_handlers(app: FastAPI, paths: Collection[str]) -> None:
    """Let every failure of the application, expected or not, be answered in the one form; `paths` are what it has."""

    async def answer_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _answer_http_exception(request, error, paths)

    app.add_exception_handler(CorralError, _answer_corral_error)
    app.add_exception_handler(HTTPException, answer_http_exception)
    app.add_exception_handler(Exception, _answer_fault)


async def _answer_corral_error(request: Request, error: Exception) -> Response:
    status, kind = next((status, kind) for cls, status, kind in _ANSWERS if isinstance(error, cls))
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return _answer(str(error), status, kind, field=getattr(error, "field", None), headers=headers)


def _answer_http_exception(request: Request, error: HTTPException, paths: Collection[str]) -> Response:
    path, method = request.url.path, request.method
    if error.status_code == 404:
        hint = nearest(path, paths)
        return _answer(f"there is nothing at {path}; {hint}", 404, "not_found")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        said = f"{method} is not possible on {path}" + (f"; {allowed} is" if allowed else "")
        return _answer(said, 405, "refused", headers=error.headers)
    return _answer(str(error.detail), error.status_code, "refused", headers=error.headers)


async def _answer_fault(request: Request, error: Exception) -> Response:
    log.error("%s %s failed: %s: %s", request.method, request.url.path, type(error).__name__, error)
    said = "the server met a fault of its own; its log says which. Nothing is known to be wrong with the request"
    return _answer(said, 500, "internal")


def _answer(
    message: str, status: int, kind: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    body = error_body(message, kind=kind, field=field)
    return Response(body, status, headers=headers, media_type="application/json")
