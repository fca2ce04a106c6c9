"""HTTP/1.1 as far as an API server speaks it: a request as bytes, and its answer as it comes.

`http.client` reads headers as those of mail are read, and sends a body by itself: most of what a short call costs.
llhttp, which Node.js reads HTTP with, reads the answers.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException, IncompleteRead, InvalidURL, LineTooLong, RemoteDisconnected

import httptools

MOST_HEAD_BYTES = 1 << 16

_UNFIT_TARGET = re.compile(r"[^!-~]")
_UNFIT_HEADER = re.compile(r"[^\t -~\x80-\xff]")


def request_bytes(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """One request, whole, so that it is sent at once. Raises HTTPException where it would be read as something else."""
    if _UNFIT_TARGET.search(target):
        raise InvalidURL(f"{target!r:.200} cannot be asked for")
    if any(_UNFIT_HEADER.search(value) for value in headers.values()):
        raise HTTPException("a header would have characters that none can have, such as the end of a line")
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + (body or b"")


class HttpAnswer:
    """The answer to one request; its head has come, its body comes as it is asked for.

    Attributes:
        receive: the next bytes of the connection, b"" at its end.
    """

    def __init__(self, receive: Callable[[], bytes]) -> None:
        """Reads the head. Raises what `receive` does, and HTTPException for what is no answer."""
        self.receive = receive
        self._message = _Message()
        self._parser = httptools.HttpResponseParser(self._message)
        self._message.parser = self._parser
        head_bytes = 0
        while not self._message.begun:
            if head_bytes > MOST_HEAD_BYTES:
                raise LineTooLong("head of an answer")
            block = self.receive()
            if not block:
                raise RemoteDisconnected("the connection was closed without an answer")
            head_bytes += len(block)
            self._read(block)

    @property
    def status(self) -> int:
        """The code, 200 or higher."""
        return self._message.status

    @property
    def headers(self) -> Mapping[str, str]:
        """By name in lower case."""
        return self._message.headers

    @property
    def reusable(self) -> bool:
        """Whether the body was read and the connection can have another request."""
        return self._message.complete and self._message.stays_open and not self._message.surplus

    def blocks(self) -> Iterator[bytes]:
        """The body, bit by bit as it comes. Raises what `receive` does, and HTTPException where it breaks off."""
        while True:
            held, self._message.body = self._message.body, []
            yield from held
            if self._message.complete:
                return
            block = self.receive()
            if block:
                self._read(block)
            elif self._message.has_an_end:
                raise IncompleteRead(b"")
            else:
                return

    def _read(self, block: bytes) -> None:
        try:
            self._parser.feed_data(block)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # What follows a whole answer has begun another, and so the connection is not used again.
            if not self._message.complete:
                raise HTTPException(f"the answer is not HTTP: {error}") from None


class _Message:
    """What llhttp has read; it calls the methods that begin with `on_`."""

    def __init__(self) -> None:
        self.parser: httptools.HttpResponseParser | None = None
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []
        self.begun = self.complete = self.stays_open = self.surplus = False

    @property
    def has_an_end(self) -> bool:
        """Whether the answer says where it ends, and so not by the end of the connection."""
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    def on_message_begin(self) -> None:
        self.surplus = self.complete
        if not self.complete:
            self.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.begun:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        if self.parser is not None and not self.begun:
            self.status = self.parser.get_status_code()
            # What comes before an answer, "100 Continue", has a head of its own.
            self.begun = self.status >= 200

    def on_body(self, block: bytes) -> None:
        if not self.complete:
            self.body.append(block)

    def on_message_complete(self) -> None:
        if self.begun and not self.complete and self.parser is not None:
            self.complete, self.stays_open = True, self.parser.should_keep_alive()
            self.parser = None  # which has this: else each answer would be left to the garbage collector
