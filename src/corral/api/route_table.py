"""Routes as data. `corral.api.served_routes` serves them, and `corral.api.openapi` describes them on request."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar, Unpack

from corral.api.requests.bodies import MAX_BODY_BYTES

Endpoint = TypeVar("Endpoint", bound=Callable[..., Awaitable[Any]])


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a route's requests: the JSON of a `cls`, or with `cls` None any bytes."""

    cls: type[Any] | None
    most_bytes: int = MAX_BODY_BYTES


class RouteDetails(TypedDict, total=False):
    """The declared details of a route. A route without `answers` is not in the description."""

    takes: Body
    query: type[Any]
    answers: Mapping[int | str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """A method, a path and the endpoint that answers, `endpoint(request, context, **parameters of the path)`."""

    method: str
    path: str
    endpoint: Callable[..., Awaitable[Any]]
    name: str
    does: str
    open_to_all: bool
    """The route needs no token; its endpoint gets no context."""

    takes: Body | None = None
    query: type[Any] | None = None
    """The class of the query string."""

    answers: Mapping[int | str, Any] | None = None
    """The `responses` in the description."""


@dataclass(frozen=True, slots=True)
class SocketRoute:
    """A path and the endpoint of its WebSocket, `endpoint(websocket, **parameters of the path)`."""

    path: str
    endpoint: Callable[..., Awaitable[None]]


class RouteTable:
    """The routes of one subject, in the order in which they are matched."""

    def __init__(self, tag: str | None = None, *, prefix: str = "/api/v1", open_to_all: bool = False) -> None:
        """`prefix` precedes all paths of the table."""
        self.tag = tag
        self.prefix = prefix
        self.routes: list[ApiRoute | SocketRoute] = []
        self._open_to_all = open_to_all

    def get(self, path: str, **told: Unpack[RouteDetails]) -> Callable[[Endpoint], Endpoint]:
        """Decorate the endpoint that answers GET at this path."""
        return self._decorator("GET", path, told)

    def post(self, path: str, **told: Unpack[RouteDetails]) -> Callable[[Endpoint], Endpoint]:
        """Decorate the endpoint that answers POST at this path."""
        return self._decorator("POST", path, told)

    def put(self, path: str, **told: Unpack[RouteDetails]) -> Callable[[Endpoint], Endpoint]:
        """Decorate the endpoint that answers PUT at this path."""
        return self._decorator("PUT", path, told)

    def patch(self, path: str, **told: Unpack[RouteDetails]) -> Callable[[Endpoint], Endpoint]:
        """Decorate the endpoint that answers PATCH at this path."""
        return self._decorator("PATCH", path, told)

    def delete(self, path: str, **told: Unpack[RouteDetails]) -> Callable[[Endpoint], Endpoint]:
        """Decorate the endpoint that answers DELETE at this path."""
        return self._decorator("DELETE", path, told)

    def websocket(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """Decorate the endpoint of a WebSocket at this path."""

        def add(endpoint: Endpoint) -> Endpoint:
            self.routes.append(SocketRoute(path, endpoint))
            return endpoint

        return add

    def add(
        self,
        method: str,
        path: str,
        endpoint: Callable[..., Awaitable[Any]],
        *,
        name: str,
        does: str,
        **told: Unpack[RouteDetails],
    ) -> None:
        """Add a route whose name and description do not come from its endpoint's name and docstring."""
        route = ApiRoute(
            method=method, path=path, endpoint=endpoint, name=name, does=does, open_to_all=self._open_to_all, **told
        )
        self.routes.append(route)

    def _decorator(self, method: str, path: str, told: RouteDetails) -> Callable[[Endpoint], Endpoint]:
        def add(endpoint: Endpoint) -> Endpoint:
            self.add(method, path, endpoint, name=endpoint.__name__, does=endpoint.__doc__ or "", **told)
            return endpoint

        return add
