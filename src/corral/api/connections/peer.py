"""HTTP connections that know which user is at the other end, and that have time limits.

uvicorn does not give an application the peer of a Unix socket, so its protocol class is extended here. This relies on
undocumented attributes. So uvicorn is pinned, tests check the attributes, and a request without a peer is refused.
"""

import asyncio
import http
import socket
from collections import deque
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from corral.api.answers.errors import Busy, error_body
from corral.api.connections.connection_limits import ConnectionLimits
from corral.api.connections.far_end import FarEnd
from corral.unix_peer import Peer, peer_of

REQUEST_TIMEOUT_S = 30.0
"""The longest time for a request to arrive, and for a new connection to send its first request."""

MAX_HEAD_BYTES = 64 * 1024
"""The most bytes of a request besides its body: its head, and the bytes between and after the chunks. At most one piece
more than this is parsed.
"""

MOST_FIELDS = 128
"""The most header fields of a request. A parsed field takes up to thirty times its bytes."""

MAX_SOCKET_HEAD_BYTES = 16 * 1024
"""The longest head of a WebSocket. The head is kept for as long as the WebSocket is open."""

UNCOUNTED_HEAD_BYTES = 4 * 1024
"""A longer head counts in the limit of all connections (`ConnectionLimits.heads`)."""

PIECE_BYTES = 1024
"""The most bytes parsed at a time, except for a body of known length. Data after the next request waits unparsed."""

_READ_BYTES = 8 * 1024
"""The most bytes received at a time, and the most that wait unparsed. More while a body of known length arrives."""

FAREWELL_S = 1.0
"""A refused client may send on for this time. If the connection closed at once, the client might lose the answer."""

MAX_UNREAD_BYTES = 512 * 1024
"""A client is disconnected if it leaves more than this of its answer unread for REQUEST_TIMEOUT_S. Blocks of logs are
smaller, so a person may read a log as slowly as they like.
"""


class PeerProtocol(HttpToolsProtocol, asyncio.BufferedProtocol):
    """HTTP/1.1 whose requests carry `scope["state"]["peer"]`: a `Peer` on a Unix socket, None on TCP.

    More values in `scope["state"]`:

    - `far_end`: the `FarEnd` of a TCP connection without TLS, None for any other connection.
    - `certificate`: the common name in the client's certificate, which was verified; None if it has shown none.
    - `tokens`: the digests of the tokens of the request in progress. The request ends when one of them ends.
    - `hang_up`: closes the connection, also in the middle of an answer.
    - `finish_within`: the method `finish_within`.

    One request is answered at a time. Data beyond the next request is parsed when its turn comes, and not received
    before that. So a connection holds at most two heads and a few kilobytes. A lost connection leaves no cycle of
    references, which would keep its head until the next garbage collection.
    """

    _deadline: asyncio.TimerHandle | None = None
    _reading_deadline: asyncio.TimerHandle | None = None
    _who = ""
    _unparsed = b""
    _refused = False
    _heard_after_refusal = 0
    _in_head = False
    _began_here = False
    _beside_body = 0
    _fields = 0
    _body = 0
    _announced_bytes = 0
    _rest_of_body = 0
    _counted = 0

    def __init__(self, limits: ConnectionLimits, **connection: Any) -> None:
        super().__init__(**connection)
        self._limits = limits
        # The counted bytes of the parsed heads whose requests are not answered yet, the oldest first.
        self._counted_heads: deque[int] = deque()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = peer_at(transport.get_extra_info("socket"))
        self.app_state = {
            **self.app_state,
            "peer": peer,
            "far_end": None if peer or self.scheme == "https" else _far_end(transport),
            "certificate": _certified_name(transport.get_extra_info("peercert")),
            "tokens": set(),
            "hang_up": transport.close,
            "finish_within": self.finish_within,
        }
        self._who = f"user {peer.uid}" if peer else str(self.client[0] if self.client else "")
        if not self._limits.enter(self._who, len(self.connections)):
            self.app = _too_many
        self._expect_a_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self.resume_writing()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._forget_requests()
        self._limits.leave(self._who)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._limits.buffer if self._rest_of_body > _READ_BYTES else self._limits.buffer[:_READ_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        if self._refused:
            self._heard_after_refusal += nbytes
            if self._heard_after_refusal > 4 * MAX_HEAD_BYTES:
                self.transport.close()
            return
        self._unparsed += bytes(self._limits.buffer[:nbytes])
        self._parse()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            # A reverse proxy sends requests of many users on one connection, so the next request has its own token.
            self.app_state["tokens"].clear()
            if counted := self._counted_heads.popleft():
                self._limits.heads.give_back(self._who, counted)
            if self._unparsed:
                self._parse()

    def on_message_begin(self) -> None:
        self._began_here = self._in_head = True
        self._beside_body = self._body = self._fields = self._announced_bytes = 0
        self._expect_a_request()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # A field outside the head is a trailer. It would be taken for a header of the request that is being answered.
        if not self._in_head:
            return
        self._fields += 1
        if self._fields > MOST_FIELDS:
            raise ValueError  # it ends the parsing; then `send_400_response` is called
        if len(name) == len(b"content-length") and name.lower() == b"content-length" and value.isdigit():
            self._announced_bytes = int(value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._rest_of_body = self._announced_bytes
        self._counted_heads.append(self._counted)
        self._counted = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        self._rest_of_body = max(0, self._announced_bytes - self._body)
        super().on_body(body)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reading_deadline is None:
            self._reading_deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self._drop_unread)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading_deadline is not None:
            self._reading_deadline.cancel()
            self._reading_deadline = None

    def on_message_complete(self) -> None:
        self._expect_nothing()
        self._rest_of_body = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._fields > MOST_FIELDS:
            self._refuse(431, f"the request has more than {MOST_FIELDS} header fields, the limit")
        else:
            self._refuse(400, f"{msg.rstrip('.')}; this server speaks HTTP/1.1")

    def handle_websocket_upgrade(self) -> None:
        if self.app is _too_many:
            self._refuse(503, _TOO_MANY)
        elif self._beside_body > MAX_SOCKET_HEAD_BYTES:
            self._refuse(431, f"the headers of a WebSocket are larger than {MAX_SOCKET_HEAD_BYTES // 1024} KiB")
        else:
            self.app_state["left"] = partial(self._limits.leave, self._who)
            super().handle_websocket_upgrade()
            self._forget_requests()

    def finish_within(self, timeout_s: float) -> None:
        """Accept the rest of the answer although the client does not read. Disconnect the client after `timeout_s`."""
        self.flow.resume_writing()
        self.loop.call_later(timeout_s, self.transport.abort)

    def _parse(self) -> None:
        """Parse the received bytes, up to the request that is answered next."""
        at, received = 0, self._unparsed
        while at < len(received) and not (self.pipeline or self._refused or self.transport.is_closing()):
            piece = received[at : at + (self._rest_of_body or PIECE_BYTES)]
            at += len(piece)
            self._parse_piece(piece)
            if self.parser is None:
                return  # it is a WebSocket now
        self._unparsed = received[at:]
        if self._unparsed:
            self.flow.pause_reading()

    def _parse_piece(self, piece: bytes) -> None:
        beside_body = self._beside_body
        if beside_body > UNCOUNTED_HEAD_BYTES and not self._has_room_for(len(piece)):
            return
        self._began_here, body_before = False, self._body
        super().data_received(piece)
        # A request that began in this piece has at most the bytes of the piece.
        if not self._began_here:
            self._beside_body = beside_body + len(piece) - (self._body - body_before)

    def _has_room_for(self, count: int) -> bool:
        """Return whether `count` more bytes of a long head, or beside a body, may be parsed. If not, refuse them."""
        if self._beside_body > MAX_HEAD_BYTES + self._body:
            self._refuse(431, f"the request's headers are larger than {MAX_HEAD_BYTES // 1024} KiB")
            return False
        if self._in_head:
            try:
                self._limits.heads.take(self._who, count)
            except Busy as busy:
                self._refuse(503, str(busy))
                return False
            self._counted += count
        return True

    def _refuse(self, status: int, message: str) -> None:
        """Take no more from this connection. Send the reason, unless it would pass for the answer to a request."""
        self._refused, self._unparsed = True, b""
        self.parser = None  # type: ignore[assignment]
        self._limits.heads.give_back(self._who, self._counted)
        self._counted = 0
        self._expect_nothing()
        answered_now: RequestResponseCycle | None = self.cycle
        if answered_now is not None and not (answered_now.response_complete or answered_now.more_body):
            answered_now.keep_alive = False
            return
        body = error_body(message, kind="backend" if status == 503 else "refused")
        head = f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.loop.call_later(FAREWELL_S, self.transport.close)

    def _forget_requests(self) -> None:
        """Drop everything that refers to this connection, so that its memory is freed as soon as nobody uses it."""
        self._limits.heads.give_back(self._who, self._counted + sum(self._counted_heads))
        self._counted_heads.clear()
        self._counted, self._unparsed, self.app_state = 0, b"", {}
        self.pipeline.clear()
        self.cycle = self.scope = self.headers = self.parser = None  # type: ignore[assignment]

    def _drop_unread(self) -> None:
        self._reading_deadline = None
        if self.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self.transport.abort()

    def _expect_a_request(self) -> None:
        self._expect_nothing()
        self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self.timeout_keep_alive_handler)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


_TOO_MANY = "the server has too many connections; try again in a moment"


async def _too_many(scope: Scope, receive: Receive, send: Send) -> None:
    body = error_body(_TOO_MANY, kind="backend")
    headers = {"connection": "close", "retry-after": "1"}
    await Response(body, 503, headers=headers, media_type="application/json")(scope, receive, send)


def peer_at(connection: Any) -> Peer | None:
    """The process at the other end of a Unix socket; None for other sockets."""
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    return peer_of(connection)


def _certified_name(certificate: Any) -> str | None:
    """The common name of the subject of a certificate as Python's ssl describes it; "" if it has none.

    None without a certificate. TLS has verified it if there is one.
    """
    if not certificate:
        return None
    subject = dict(pair for part in certificate.get("subject", ()) for pair in part)
    return str(subject.get("commonName", ""))


def _far_end(transport: asyncio.BaseTransport) -> FarEnd:
    near, far = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    return FarEnd(near[:2], far[:2])
