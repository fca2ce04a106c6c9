"""What every route has at hand: the service, the caller, and threads for what blocks."""

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, TypeVar

from anyio import to_thread
from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from corral.access.caller import Caller, must_reach
from corral.api.auth import Authenticator
from corral.api.bodies import MAX_BODY_BYTES, InFlight, Intake
from corral.api.submitting import Submitter
from corral.api.waiting import EndSignal
from corral.control.service import Service
from corral.control.tokens import TokenIssuer
from corral.model.token import TokenScope
from corral.wire import to_plain

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class AppParts:
    """One application's parts, kept at `app.state.parts`."""

    service: Service
    submitter: Submitter
    authenticator: Authenticator
    token_issuer: TokenIssuer
    ends: EndSignal
    in_flight: InFlight = field(default_factory=InFlight)


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose caller is known."""

    service: Service
    submitter: Submitter
    token_issuer: TokenIssuer
    caller: Caller
    ends: EndSignal


async def asked(request: Request) -> Call:
    """The dependency of every route that is not for all."""
    parts: AppParts = request.app.state.parts
    caller = await parts.authenticator.caller_of(request)
    return Call(parts.service, parts.submitter, parts.token_issuer, caller, parts.ends)


Ask = Annotated[Call, Depends(asked)]
"""How an endpoint says, in the description too, that it wants to know who asks."""


MOST_BYTES = "x-max-bytes"
"""The key by which the description of a body says how large it may be."""

_READ_ONLY: set[Callable[..., Any]] = set()


def read_only(endpoint: Endpoint) -> Endpoint:
    """Marks a POST that changes nothing, so that a token of scope read is enough for it."""
    _READ_ONLY.add(endpoint)
    return endpoint


class CallRoute(APIRoute):
    """Calls `endpoint(request, ask, **path parameters)` directly, for callers whose scope reaches so far.

    The request has its `Intake` in its state.

    The signature serves the description only: resolving it anew for each request would take as long as reading and
    checking a submission.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint = self.endpoint
        looks = self.methods == {"GET"} or endpoint in _READ_ONLY
        least = TokenScope.READ if looks else TokenScope.SUBMIT
        most_bytes = (self.openapi_extra or {}).get("requestBody", {}).get(MOST_BYTES, MAX_BODY_BYTES)

        async def handle(request: Request) -> Response:
            ask = await asked(request)
            must_reach(ask.caller, least)
            parts: AppParts = request.app.state.parts
            request.scope["state"]["intake"] = intake = Intake(parts.in_flight, ask.caller.user, most_bytes)
            try:
                intake.refuse_announced(request)
                response: Response = await endpoint(request, ask, **request.path_params)
            finally:
                intake.close()
            return response

        return handle


async def answer(call: Callable[..., Any], *args: Any, status: int = 200, **kwargs: Any) -> Response:
    """The JSON of what the call returns; both are made on a worker thread, for either may take its time."""
    body = await to_thread.run_sync(partial(_json_of_call, call, args, kwargs))
    return Response(body, status, media_type="application/json")


def json_response(data: Any, status: int = 200) -> Response:
    """A small answer."""
    return Response(to_json(data), status, media_type="application/json")


def to_json(data: Any) -> bytes:
    """JSON, without blanks, of plain data with rows in it."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False, default=to_plain).encode()


def _json_of_call(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    return to_json(call(*args, **kwargs))
