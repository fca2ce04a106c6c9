"""HTTP connections that know which user is at the other end, and that have time limits.

uvicorn does not tell an application the peer of a Unix socket, so its protocol class is extended here. This relies on
undocumented attributes: uvicorn is pinned, tests check them, and a request without a peer is refused.
"""

import asyncio
import http
import socket
import struct
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from corral.api.errors import error_body

REQUEST_TIMEOUT_S = 30.0
"""How long a request may take to arrive, and a new connection to send one."""

MAX_HEAD_BYTES = 64 * 1024
"""The most bytes of a request besides its body: its head, and what stands between and after the chunks."""

MAX_UNREAD_BYTES = 512 * 1024
"""A client that leaves more than this of its answer unread for REQUEST_TIMEOUT_S is disconnected. Blocks of logs are
smaller, so a person may read a log as slowly as they like."""

_UCRED = struct.Struct("3i")


class Peer(NamedTuple):
    """The process that opened a connection, as the kernel names it (SO_PEERCRED, unix(7))."""

    pid: int
    uid: int
    gid: int


class PeerProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose requests carry `scope["state"]["peer"]`: a `Peer` on a Unix socket, None on TCP.

    `scope["state"]["hang_up"]` closes the connection, also in the middle of an answer, and
    `scope["state"]["finish_within"]` is `finish_within`.
    """

    _deadline: asyncio.TimerHandle | None = None
    _reading_deadline: asyncio.TimerHandle | None = None
    _in_head = False
    _began_here = False
    _beside_body = 0
    _body = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = peer_of(transport.get_extra_info("socket"))
        self.app_state = {
            **self.app_state,
            "peer": peer,
            "hang_up": transport.close,
            "finish_within": self.finish_within,
        }
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency:
            self.app = _too_many
        # uvicorn's own answer above the limit does not have the form that clients read.
        self.limit_concurrency = None
        self._expect_a_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._began_here, body_before = False, self._body
        super().data_received(data)
        # The parser keeps what it has not handed on. Of a request that began here there cannot be much yet.
        if not self._began_here:
            self._beside_body += len(data) - (self._body - body_before)
            if self._beside_body > MAX_HEAD_BYTES + self._body and not self.transport.is_closing():
                self._refuse(431, f"the request's headers are larger than {MAX_HEAD_BYTES // 1024} KiB")

    def on_message_begin(self) -> None:
        self._began_here = self._in_head = True
        self._beside_body = self._body = 0
        self._expect_a_request()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # What is not in the head is a trailer, and would be taken for a header of a request that is being answered.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
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
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, f"{msg.rstrip('.')}; this server speaks HTTP/1.1")

    def handle_websocket_upgrade(self) -> None:
        if self.app is _too_many:
            self._refuse(503, _TOO_MANY)
        else:
            super().handle_websocket_upgrade()

    def finish_within(self, timeout_s: float) -> None:
        """Take what is still to be sent though the client does not read; disconnect it after so long."""
        self.flow.resume_writing()
        self.loop.call_later(timeout_s, self.transport.abort)

    def _refuse(self, status: int, message: str) -> None:
        body = error_body(message, kind="refused")
        head = f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.transport.close()

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


def peer_of(connection: Any) -> Peer | None:
    """The process at the other end of a Unix socket; None for other sockets."""
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    return Peer(*_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))
