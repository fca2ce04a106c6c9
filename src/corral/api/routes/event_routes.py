"""Events as they happen: Server-Sent Events and WebSockets at one path, with the same events."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from functools import partial
from typing import TypeVar

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from corral.api.answers.errors import response_to
from corral.api.answers.responses import gives_text
from corral.api.answers.streams import until_gone
from corral.api.connections.websockets import CLOSED_FORBIDDEN, CLOSED_MESSAGE, CLOSED_RESTART, CLOSED_SLOW
from corral.api.events.event_batches import EventBatch
from corral.api.events.event_feed import EventFeed
from corral.api.events.event_stream import FAREWELL_S, STALL_S, EventStream
from corral.api.requests import shapes
from corral.api.requests.origins import must_be_of_no_other_page
from corral.api.requests.reading import read_query
from corral.api.route_table import RouteTable
from corral.api.routing import AppState, RequestContext
from corral.core.access.caller import Caller
from corral.core.access.permissions import must_reach
from corral.core.control.events.rows_of_facts import METRICS
from corral.core.model.errors import CorralError, Refused, nearest
from corral.core.model.token import TokenScope

CONTENT_TYPE = "text/event-stream"
RETRY_MS = 2_000
"""The time that a browser waits before it connects again."""

_MOST_DIGITS = 18
_LONGEST_REASON = 120

Data = TypeVar("Data", bytes, list[str])

router = RouteTable("devices and server")


@router.get(
    "/events",
    query=shapes.EventsQuery,
    answers=gives_text(
        CONTENT_TYPE, "Server-Sent Events, each with an Event as its data; also available as a WebSocket."
    ),
)
async def events(request: Request, context: RequestContext) -> Response:
    """Stream the events of jobs, devices and alerts, and samples of devices."""
    state: AppState = request.app.state.corral
    return EventStreamResponse(state.events, context.caller, _stream(state, request, context.caller))


@router.websocket("/events")
async def event_socket(websocket: WebSocket) -> None:
    """Send the same events over a WebSocket, several in a message."""
    state: AppState = websocket.app.state.corral
    try:
        caller = await reader(state, websocket)
        stream = _stream(state, websocket, caller)
        with state.events.client(caller.user, stream.topics):
            await websocket.accept()
            await serve(websocket, stream, lambda batch: filter(None, [batch.text(stream.topics)]))
    except CorralError as error:
        await websocket.send_denial_response(response_to(error))


async def reader(state: AppState, connection: HTTPConnection) -> Caller:
    """The caller of a connection, who has the right to read. Raises Forbidden."""
    caller = await state.authenticator.caller_of(connection)
    must_reach(caller, TokenScope.READ)
    return caller


def _stream(state: AppState, connection: HTTPConnection, caller: Caller) -> EventStream:
    """The event stream that a request asks for. Raises Refused and Forbidden."""
    must_be_of_no_other_page(connection)
    wanted = read_query(connection, shapes.EventsQuery)
    known = (*state.events.topics, METRICS)
    for topic in wanted.topics:
        if topic not in known:
            raise Refused(f"there is no topic {topic!r:.60}; {nearest(topic, known)}", field="topics")
    after = _last_id(connection, wanted.after)
    topics = tuple(dict.fromkeys(wanted.topics)) or state.events.topics

    async def allowed() -> None:
        await reader(state, connection)

    return EventStream(state.events, caller.user, topics, after, allowed)


def _last_id(connection: HTTPConnection, after: int | None) -> int | None:
    """The event after which to go on. The header has priority: a browser that reconnects repeats its first query."""
    if after is not None and after < 0:
        raise Refused(f"after must be 0 or more, not {after}", field="after")
    said = connection.headers.get("last-event-id")
    if not said:
        return after
    if not (said.isascii() and said.isdigit()) or len(said) > _MOST_DIGITS:
        raise Refused(f"Last-Event-ID: {said!r:.40} is not the id of an event", field="Last-Event-ID")
    return int(said)


class EventStreamResponse(Response):
    """Sends a stream until the client or the server goes."""

    media_type = CONTENT_TYPE

    def __init__(self, feed: EventFeed, caller: Caller, stream: EventStream) -> None:
        # A proxy must pass on each event at once. A connection whose client was too slow is not used again.
        headers = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no", "connection": "close"}
        super().__init__(None, headers=headers)
        del self.headers["content-length"]
        self._feed = feed
        self._user = caller.user
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        with self._feed.client(self._user, self._stream.topics):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await until_gone(gone, partial(self._tell, scope, send))

    async def _tell(self, scope: Scope, send: Send) -> None:
        async def tell(data: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": more})

        topics, last_words = self._stream.topics, b""
        try:
            await tell(b"retry: %d\n" % RETRY_MS)
            await _pass_on(self._stream, lambda batch: batch.stream(topics), tell)
        except TimeoutError:
            scope["state"]["finish_within"](FAREWELL_S)
            last_words = self._stream.overflow().stream(topics)
        except CorralError:
            pass  # a client that connects again gets the error
        await tell(last_words, more=False)


async def serve(
    websocket: WebSocket, stream: EventStream, render: Callable[[EventBatch], Iterable[str]], *, deaf: bool = False
) -> None:
    """Send a stream, each batch as messages, until the client or the server goes.

    A client that sends a message is disconnected with the reason that nothing is read, unless the server is `deaf`.
    """
    said: list[str] = []

    async def gone() -> None:
        said.append((await websocket.receive())["type"])
        while deaf and said[-1] == "websocket.receive":
            said[-1] = (await websocket.receive())["type"]

    async def send(texts: list[str]) -> None:
        for text in texts:
            await websocket.send_text(text)

    async def tell() -> None:
        with suppress(WebSocketDisconnect):
            try:
                await _pass_on(stream, lambda batch: list(render(batch)), send)
                await websocket.close(CLOSED_RESTART, "the server stops")
            except TimeoutError:
                websocket.scope["state"]["finish_within"](FAREWELL_S)
                await send(list(render(stream.overflow())))
                await websocket.close(CLOSED_SLOW, "nothing was read for too long")
            except CorralError as error:
                await websocket.close(CLOSED_FORBIDDEN, str(error).encode()[:_LONGEST_REASON].decode(errors="ignore"))

    await until_gone(gone, tell)
    if said == ["websocket.receive"]:
        with suppress(WebSocketDisconnect):
            await websocket.close(CLOSED_MESSAGE, "messages to this WebSocket are not read")


async def _pass_on(
    stream: EventStream, render: Callable[[EventBatch], Data], send: Callable[[Data], Awaitable[None]]
) -> None:
    """Send all batches. Raises TimeoutError if the client receives nothing, and the error that ends the stream."""
    async with aclosing(stream.batches()) as batches:
        async for batch in batches:
            if data := render(batch):
                async with asyncio.timeout(STALL_S):
                    await send(data)
