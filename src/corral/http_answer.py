"""HTTP/1.1 for a client: a request in one piece, and an answer that is parsed from its bytes as they come.

The reader does no I/O: blocking sockets and asyncio therefore share it. Its memory is bounded. `http.client` parses
headers like those of mail, and takes longer to load than all other work of a short command. A binding of llhttp loads
`typing` and has to be compiled (decision 77).
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know this name, and importing `typing` takes longer than this whole module
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MOST_HEAD_BYTES = 1 << 16
MOST_HEADERS = 100
MOST_INTERIM_ANSWERS = 10
MOST_SIZE_LINE_BYTES = 1 << 12

_BEGINNING = b"HTTP/1."
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
_LONGEST_SIZE = 15
_NO_BODY = (204, 304)


class NotHttp(Exception):
    """The received bytes are not an answer."""


class CutShort(NotHttp):
    """The connection ended before the answer did."""


class HungUp(CutShort):
    """The connection was closed before the first byte of an answer."""


def request_bytes(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """One whole request, to send at once. Raises ValueError if a server would read it as something else."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if " " in target or not all(line.isprintable() for line in lines):
        raise ValueError(f"{target!r:.200} cannot be asked for")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + (body or b"")


class Answer:
    """The answer to one request, as far as its bytes have come.

    Attributes:
        status: 200 or higher, once the answer has begun.
        headers: by name in lower case; several values of one name are joined by commas.
        begun: whether the head has come.
        complete: whether all of the body has come.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.begun = self.complete = False
        self._held = b""
        self._at = self._announced = 0
        self._body: list[bytes] = []
        self._left: int | None = None
        self._chunked = self._ending = self._stays_open = False

    @property
    def reusable(self) -> bool:
        """Whether the answer was read, nothing came after it, and the connection can take another request."""
        return self.complete and self._stays_open and not self._body and not self._held

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the connection; b"" is its end. Raises NotHttp, CutShort and HungUp."""
        if not data:
            self._end()
        elif self.begun:
            self._read_body(data)
        else:
            self._read_head(data)

    def taken(self) -> list[bytes]:
        """The pieces of the body that came since the last call."""
        body, self._body = self._body, []
        return body

    def _end(self) -> None:
        if self.begun and self._left is None and not self._chunked:
            self.complete = True
        elif self.begun or self._held:
            raise CutShort("the answer breaks off")
        else:
            raise HungUp("the server closed the connection without an answer")

    def _read_head(self, data: bytes) -> None:
        held, at, searched = self._held + data, self._at, len(self._held) - 3
        while not self.begun:
            end = _place(b"\r\n\r\n", held, max(at, searched), MOST_HEAD_BYTES)
            if end < 0:
                if not _BEGINNING.startswith(held[at : at + len(_BEGINNING)]):
                    raise _not_begun(held[at:].decode("latin-1"))
                self._held, self._at = held, at
                return
            first, *lines = held[at:end].decode("latin-1").split("\r\n")
            self.status, keeps = _status(first)
            self.headers = _headers(lines)
            at = end + 4
            if self.status >= 200:
                self._begin(keeps)
            elif self._announced < MOST_INTERIM_ANSWERS:
                self._announced += 1  # "100 Continue" and its like come before the answer
            else:
                raise NotHttp(f"more than {MOST_INTERIM_ANSWERS} times an answer is only announced")
        self._held = b"\r\n" if self._chunked else b""  # the size of a piece follows the end of a line
        if at < len(held):
            self._read_body(held[at:])

    def _begin(self, keeps: bool) -> None:
        """Find out from the head how the body ends. `keeps`: whether the server keeps connections open."""
        coding, length = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        self.begun = True
        if self.status in _NO_BODY:
            self._left = 0
        elif coding is None:
            self._left = None if length is None else _length(length)
        elif coding.lower() == "chunked":
            self._chunked = True
        else:
            raise NotHttp(f"the answer is encoded as {coding:.60}")
        self.complete = self._left == 0
        # An answer that gives its end in two ways is read, but bytes after it are not trusted.
        certain = self._left is not None or (self._chunked and length is None)
        closes = "close" in self.headers.get("connection", "").lower().replace(",", " ").split()
        self._stays_open = keeps and certain and not closes

    def _read_body(self, data: bytes) -> None:
        if self.complete:
            self._held += data
        elif self._chunked:
            self._read_pieces(self._held + data)
        elif self._left is None:
            self._body.append(data)
        else:
            self._body.append(data[: self._left])
            self._held = data[self._left :]
            self._left -= len(self._body[-1])
            self.complete = not self._left

    def _read_pieces(self, data: bytes) -> None:
        """Read a body of pieces that each give their length. The end of a piece is read with the size of the next."""
        at, left, body = 0, self._left or 0, self._body
        while not self._ending:
            if left:
                piece = data[at : at + left]
                at += left
                left -= len(piece)
                if piece:
                    body.append(piece)
                if left:
                    break
            end = _place(b"\r\n", data, at + 2, at + MOST_SIZE_LINE_BYTES)
            if end < 0:
                break
            left = _size(data[at:end])
            self._ending = not left
            at = end if self._ending else end + 2
        self._left, self._held = left, data[at:]
        if self._ending:
            self._read_trailer()

    def _read_trailer(self) -> None:
        """Skip the headers after the last piece: the client does not use them."""
        end = _place(b"\r\n\r\n", self._held, 0, MOST_HEAD_BYTES)
        if end >= 0:
            self.complete, self._held = True, self._held[end + 4 :]


def begun(receive: Callable[[], bytes]) -> Answer:
    """An answer whose head has come. `receive` waits for the next bytes. Raises like `receive` and `feed`."""
    answer = Answer()
    while not answer.begun:
        answer.feed(receive())
    return answer


def blocks(answer: Answer, receive: Callable[[], bytes]) -> Iterator[bytes]:
    """The body in pieces, as they come. Raises like `receive` and `feed`."""
    while True:
        yield from answer.taken()
        if answer.complete:
            return
        answer.feed(receive())


def _place(mark: bytes, data: bytes, start: int, most: int) -> int:
    """The position of `mark` between two positions; -1 if it has not come. Raises NotHttp if it can no longer come."""
    place = data.find(mark, start, most)
    if place < 0 and len(data) >= most:
        raise NotHttp("the answer has a head or a line that does not end")
    return place


def _status(line: str) -> tuple[int, bool]:
    """The code of a status line, and whether its HTTP version keeps connections open."""
    version, code, *_ = [*line.split(" ", 2), "", ""]
    known = version in ("HTTP/1.0", "HTTP/1.1") and len(code) == 3 and code.isascii() and code.isdigit()
    one_line = not {"\r", "\n", "\0"} & set(line)
    if not known or not one_line or not 100 <= int(code) <= 599 or code == "101":
        raise _not_begun(line)
    return int(code), version == "HTTP/1.1"


def _not_begun(text: str) -> NotHttp:
    return NotHttp(f"the answer begins with {text[:60]!r}")


def _headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > MOST_HEADERS:
        raise NotHttp(f"the answer has more than {MOST_HEADERS} headers")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name.split() != [name] or "\r" in line or "\n" in line or "\0" in line:
            raise NotHttp(f"the answer has the header {line[:60]!r}")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _length(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_SIZE):
        raise NotHttp(f"the answer says that it is {text!r:.60} bytes long")
    return int(text)


def _size(line: bytes) -> int:
    """The size of the next piece. `line` begins with the end of the previous piece, and may have an extension."""
    if not line.startswith(b"\r\n"):
        raise NotHttp("a piece of the answer is longer than it says")
    size = line[2:]
    if not _HEX_DIGITS.issuperset(size):
        size = size.partition(b";")[0].rstrip(b" \t")
    if not size or len(size) > _LONGEST_SIZE or not _HEX_DIGITS.issuperset(size):
        raise NotHttp(f"a piece of the answer says that it is {line[2:60]!r} bytes long")
    return int(size, 16)
