"""Clients of event streams on bare sockets: what they read is what was sent."""

import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Message, Ping, RejectConnection, RejectData, TextMessage
from wsproto.events import Request as Handshake

Happening = dict[str, Any]


class StreamClient:
    """Reads Server-Sent Events. `last_id` is what a browser would send when it connects again."""

    def __init__(self, raw: socket.socket, query: str, **headers: str) -> None:
        self.socket = raw
        said = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        raw.sendall(f"GET /api/v1/events?{query} HTTP/1.1\r\nhost: x\r\n{said}\r\n".encode())
        self._body = b""
        self._raw = b""
        while b"\r\n\r\n" not in self._raw:
            self._raw += self._received()
        self.head, _, self._raw = self._raw.partition(b"\r\n\r\n")
        self.status = int(self.head.split()[1])
        self.last_id: int | None = None
        self.ended = False

    def next(self) -> Happening:
        """The next event. Raises EOFError at the end of the stream, ConnectionError where it breaks off."""
        while b"\n\n" not in self._body:
            self._body += self._chunk()
        frame, _, self._body = self._body.partition(b"\n\n")
        fields = [line.partition(b": ") for line in frame.split(b"\n")]
        assert {name for name, _, _ in fields} <= {b"id", b"event", b"data", b"retry"}, frame
        (data,) = [value for name, _, value in fields if name == b"data"]
        for name, _, value in fields:
            if name == b"id":
                self.last_id = int(value)
        event: Happening = json.loads(data)
        assert [value.decode() for name, _, value in fields if name == b"event"] == [event["topic"]]
        return event

    def error(self) -> Any:
        length = next(int(line.split(b":")[1]) for line in self.head.split(b"\r\n") if line.startswith(b"content-len"))
        while len(self._raw) < length:
            self._raw += self._received()
        return json.loads(self._raw)["error"]["message"]

    def _chunk(self) -> bytes:
        while b"\r\n" not in self._raw:
            self._raw += self._received()
        size, _, self._raw = self._raw.partition(b"\r\n")
        length = int(size, 16)
        while len(self._raw) < length + 2:
            self._raw += self._received()
        chunk, self._raw = self._raw[:length], self._raw[length + 2 :]
        if not chunk:
            raise EOFError
        return chunk

    def _received(self) -> bytes:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        return data


class SocketClient:
    """Reads a WebSocket. `code` is the one with which it was closed."""

    path = "/api/v1/events"

    def __init__(self, raw: socket.socket, query: str, **headers: str) -> None:
        self.socket = raw
        self.code: int | None = None
        self.status = 0
        self.refusal = b""
        self._conn = WSConnection(ConnectionType.CLIENT)
        extra = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        raw.sendall(self._conn.send(Handshake(host="x", target=f"{self.path}?{query}", extra_headers=extra)))
        self._texts: list[str] = []
        self._events: list[Happening] = []
        self.last_id: int | None = None
        while not self.status:
            self._take()

    def next(self) -> Happening:
        """The next event. Raises EOFError when it was closed with a code, ConnectionError where it breaks off."""
        while not self._events:
            if self.code is not None:
                raise EOFError
            self._take()
        event = self._events.pop(0)
        self.last_id = event["id"] if event["id"] is not None else self.last_id
        return event

    def say(self, text: str) -> None:
        self.socket.sendall(self._conn.send(Message(data=text)))

    def error(self) -> Any:
        while True:
            with contextlib.suppress(ValueError):
                return json.loads(self.refusal)["error"]["message"]
            self._take()

    def _take(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        self._conn.receive_data(data)
        for event in self._conn.events():
            if isinstance(event, AcceptConnection):
                self.status = 101
            elif isinstance(event, RejectConnection):
                self.status = event.status_code
            elif isinstance(event, RejectData):
                self.refusal += event.data
            elif isinstance(event, TextMessage):
                self._texts.append(event.data)
                if event.message_finished:
                    self._events += json.loads("".join(self._texts))
                    self._texts.clear()
            elif isinstance(event, CloseConnection):
                self.code = event.code
            elif isinstance(event, Ping):
                self.socket.sendall(self._conn.send(event.response()))


AnyClient = StreamClient | SocketClient
KINDS: tuple[type[StreamClient] | type[SocketClient], ...] = (StreamClient, SocketClient)


@contextmanager
def following(connect: Callable[[], socket.socket], kind: Any, query: str = "", **headers: str) -> Iterator[Any]:
    """A client that was greeted; its first event is read."""
    with connect() as raw:
        client = kind(raw, query, **headers)
        assert client.status in (101, 200), client.error()
        client.hello = client.next()
        assert client.hello["topic"] == "hello"
        yield client
