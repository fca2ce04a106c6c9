"""HTTP/1.1 as a client of one server speaks it: a request in one piece, and its answer as it comes.

Own code for once: `http.client` reads headers as those of mail are read, and to load what it needs for that takes
longer than all that a short command does, and what binds llhttp loads `typing` (decision 77).
"""

from __future__ import annotations

import socket

TYPE_CHECKING = False  # the name is enough for a type checker, and `typing` takes longer than all that is here
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_LINE_BYTES = 1 << 16
MOST_HEADERS = 100
MOST_INTERIM_ANSWERS = 10

_RECEIVED_BYTES = 1 << 18
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
_LONGEST_SIZE = 15
_NO_BODY = (204, 304)


class NotHttp(Exception):
    """What came is no answer, or breaks off before its end."""


class HungUp(ConnectionResetError):
    """The connection was closed before anything of an answer came."""


class HttpConnection:
    """An open connection to a server, for one request after the other.

    Attributes:
        sock: open, with its TLS.
    """

    def __init__(self, sock: socket.socket, host: str) -> None:
        self.sock = sock
        self._host = host
        self._incoming = _Incoming(sock)
        self._answer: ReceivedAnswer | None = None

    def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> ReceivedAnswer:
        """Send a request; its answer, of which the head has come. Raises OSError, NotHttp."""
        self._answer = None
        self.sock.sendall(request_bytes(method, target, {"Host": self._host, **headers}, body))
        self._answer = ReceivedAnswer(self._incoming)
        return self._answer

    @property
    def reusable(self) -> bool:
        """Whether the last answer was read and the server takes another request."""
        return self._answer is not None and self._answer.complete and self._answer.stays_open and self._incoming.empty

    def close(self) -> None:
        self.sock.close()


def request_bytes(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """One request, whole, so that it is sent at once. Raises ValueError where it would be read as something else."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if " " in target or not all(line.isprintable() for line in lines):
        raise ValueError(f"{target!r:.200} cannot be asked for")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + (body or b"")


class ReceivedAnswer:
    """The answer to one request. Its head has come; its body comes as it is asked for.

    Attributes:
        status: 200 or higher.
        headers: by name in lower case.
        stays_open: whether the connection may have another request after this answer.
        complete: whether all of the body has come.
    """

    def __init__(self, incoming: _Incoming) -> None:
        """Reads the head. Raises OSError, HungUp and NotHttp."""
        self._incoming = incoming
        self.complete = False
        self.status, version = _status(incoming.line(first=True))
        self.headers = _headers(incoming)
        interim = 0
        while self.status < 200:  # "100 Continue" and its like come before the answer
            interim += 1
            if interim > MOST_INTERIM_ANSWERS:
                raise NotHttp(f"more than {MOST_INTERIM_ANSWERS} times an answer is only announced")
            self.status, version = _status(incoming.line())
            self.headers = _headers(incoming)
        words = self.headers.get("connection", "").lower().replace(",", " ").split()
        self._length = _length(self.status, self.headers)
        self.stays_open = version == b"HTTP/1.1" and "close" not in words and self._length is not None

    def blocks(self) -> Iterator[bytes]:
        """The body, bit by bit as it comes. Raises OSError, and NotHttp where it breaks off."""
        if self._length is None:
            yield from iter(self._incoming.some, b"")
        elif self._length == _CHUNKED:
            while size := _chunk_size(self._incoming.line()):
                yield from self._incoming.exactly(size)
                if self._incoming.line():
                    raise NotHttp("a piece of the answer is longer than it says")
            _headers(self._incoming)  # what may be said after the body says nothing to us
        else:
            yield from self._incoming.exactly(self._length)
        self.complete = True


_CHUNKED = -1


def _status(line: bytes) -> tuple[int, bytes]:
    """The code of a status line, and the version of HTTP."""
    version, code, *_ = [*line.split(None, 2), b"", b""]
    known = version in (b"HTTP/1.0", b"HTTP/1.1") and len(code) == 3 and code.isdigit()
    if not known or not 100 <= int(code) <= 599 or int(code) == 101:
        raise NotHttp(f"the answer begins with {line[:60]!r}")
    return int(code), version


def _headers(incoming: _Incoming) -> dict[str, str]:
    """The headers up to the empty line; of one that comes several times, all of them."""
    headers: dict[str, str] = {}
    for _ in range(MOST_HEADERS):
        line = incoming.line()
        if not line:
            return headers
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name or name != name.strip():
            raise NotHttp(f"the answer has the header {line[:60]!r}")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    raise NotHttp(f"the answer has more than {MOST_HEADERS} headers")


def _length(status: int, headers: Mapping[str, str]) -> int | None:
    """How many bytes the body has; _CHUNKED where each piece says it, None where the connection's end ends it."""
    if status in _NO_BODY:
        return 0
    coding = headers.get("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked":
            raise NotHttp(f"the answer is encoded as {coding:.60}")
        return _CHUNKED
    length = headers.get("content-length")
    if length is None:
        return None
    if not (length.isascii() and length.isdigit() and len(length) <= _LONGEST_SIZE):
        raise NotHttp(f"the answer says that it is {length!r:.60} bytes long")
    return int(length)


def _chunk_size(line: bytes) -> int:
    size = line.partition(b";")[0].strip()
    if not size or len(size) > _LONGEST_SIZE or not _HEX_DIGITS.issuperset(size):
        raise NotHttp(f"a piece of the answer says that it is {line[:60]!r} bytes long")
    return int(size, 16)


class _Incoming:
    """The bytes of a connection, in the pieces in which they are read."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._held = b""
        self._at = 0

    @property
    def empty(self) -> bool:
        """Whether all that came was read."""
        return self._at == len(self._held)

    def line(self, *, first: bool = False) -> bytes:
        """The next line, without its end. Raises HungUp where it would be the `first` and nothing came, NotHttp."""
        while (end := self._held.find(b"\n", self._at)) < 0:
            if len(self._held) - self._at > MOST_LINE_BYTES:
                raise NotHttp("the answer has a line that does not end")
            block = self._sock.recv(_RECEIVED_BYTES)
            if not block:
                if first and self.empty:
                    raise HungUp("the connection was closed without an answer")
                raise NotHttp("the answer breaks off")
            self._held, self._at = self._held[self._at :] + block, 0
        line = self._held[self._at : end]
        self._at = end + 1
        return line.removesuffix(b"\r")

    def some(self, most: int = _RECEIVED_BYTES) -> bytes:
        """What is there, up to so many bytes; b"" at the end of the connection."""
        if self.empty:
            self._held, self._at = self._sock.recv(_RECEIVED_BYTES), 0
        block = self._held[self._at : self._at + most]
        self._at += len(block)
        return block

    def exactly(self, count: int) -> Iterator[bytes]:
        """The next `count` bytes as they come. Raises NotHttp where there are fewer."""
        while count:
            block = self.some(count)
            if not block:
                raise NotHttp(f"the answer breaks off {count} bytes before its end")
            count -= len(block)
            yield block
