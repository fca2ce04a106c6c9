"""The shared parts of all routes: the objects they call, the caller of a request, and JSON made on worker threads."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import HTTPConnection
from starlette.responses import Response

from corral.api.answers.waiting import EndSignal, InputNotices
from corral.api.events.event_feed import EventFeed
from corral.api.offers import Offers
from corral.api.requests.auth import Authenticator
from corral.api.requests.bodies import InFlight
from corral.api.requests.submitting import Submitter
from corral.api.requests.user_threads import UserThreads, on_worker
from corral.api.route_table import ApiRoute
from corral.core.access.caller import Caller
from corral.core.control.metrics.scrape import Metrics
from corral.core.control.service import Service
from corral.core.control.site.reloading import SiteSettings
from corral.core.control.token_issuer import TokenIssuer
from corral.core.model.jobs.submission import Submission
from corral.core.model.token import TokenScope
from corral.wire import to_plain

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppState:
    """The objects that the routes of one application share. Kept at `app.state.corral`."""

    service: Service
    submitter: Submitter
    authenticator: Authenticator
    token_issuer: TokenIssuer
    ends: EndSignal
    site_settings: SiteSettings
    metrics: Metrics
    events: EventFeed
    offers: Offers
    notes: Callable[[Submission, Caller], Sequence[str]]
    """Remarks of features about a new submission, for its user."""
    log_threads: UserThreads = field(default_factory=UserThreads)
    input_threads: UserThreads = field(default_factory=UserThreads)
    inputs: InputNotices = field(default_factory=InputNotices)
    in_flight: InFlight = field(default_factory=InFlight)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The shared objects, and the authenticated caller, for one request."""

    service: Service
    submitter: Submitter
    log_threads: UserThreads
    input_threads: UserThreads
    token_issuer: TokenIssuer
    caller: Caller
    ends: EndSignal
    site_settings: SiteSettings
    inputs: InputNotices
    offers: Offers

    def of(self, kind: type[T]) -> T:
        """The object of this class that a feature offers."""
        return self.offers.of(kind)


async def request_context(request: HTTPConnection) -> RequestContext:
    """The context of a request. Authenticates the caller."""
    state: AppState = request.app.state.corral
    caller = await state.authenticator.caller_of(request)
    return RequestContext(
        state.service,
        state.submitter,
        state.log_threads,
        state.input_threads,
        state.token_issuer,
        caller,
        state.ends,
        state.site_settings,
        state.inputs,
        state.offers,
    )


_READ_ONLY: set[Callable[..., Any]] = set()


def read_only(endpoint: Endpoint) -> Endpoint:
    """Mark a POST that changes nothing, so that a token of scope `read` may use it."""
    _READ_ONLY.add(endpoint)
    return endpoint


def least_scope(route: ApiRoute) -> TokenScope:
    """The least scope of a token that may call the route."""
    looks = route.method == "GET" or route.endpoint in _READ_ONLY
    return TokenScope.READ if looks else TokenScope.SUBMIT


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=to_plain).encode


async def answer(call: Callable[..., Any], *args: Any, status: int = 200, **kwargs: Any) -> Response:
    """The JSON of the call's result. A worker thread runs the call and makes the JSON, because either may take long."""
    body = await on_worker(_json_of_call, call, args, kwargs)
    return Response(body, status, media_type="application/json")


def json_response(data: Any, status: int = 200) -> Response:
    """A small JSON answer, made at once."""
    return Response(to_json(data), status, media_type="application/json")


def to_json(data: Any) -> bytes:
    """Compact JSON of plain data that may contain rows."""
    return _encode(data).encode()


def _json_of_call(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    return to_json(call(*args, **kwargs))
