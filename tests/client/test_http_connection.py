"""How answers of HTTP/1.1 are read: as `http.client` reads them, and what is none is told."""

import contextlib
import http.client
import io
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.client.http_connection import (
    MOST_HEADERS,
    MOST_INTERIM_ANSWERS,
    MOST_LINE_BYTES,
    HttpConnection,
    HungUp,
    NotHttp,
    request_bytes,
)


class Line:
    """A connection that brings `data` in pieces, and then ends."""

    def __init__(self, data: bytes, piece: int = 1 << 16) -> None:
        self._pieces = io.BytesIO(data)
        self._piece = piece
        self.sent = b""

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def recv(self, most: int) -> bytes:
        return self._pieces.read(min(most, self._piece))

    def makefile(self, mode: str) -> io.BytesIO:
        return self._pieces


def asked(data: bytes, piece: int = 1 << 16) -> HttpConnection:
    return HttpConnection(cast(socket.socket, Line(data, piece)), "localhost")


def told(data: bytes, piece: int = 1 << 16) -> tuple[int, bytes, bool]:
    """Status and body of the answer, and whether the connection can have another request."""
    connection = asked(data, piece)
    answer = connection.ask("GET", "/", {})
    return answer.status, b"".join(answer.blocks()), connection.reusable


def head(*lines: str) -> bytes:
    return "\r\n".join((*lines, "", "")).encode()


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """An answer as a server or a proxy may write it."""
    body = draw(st.binary(max_size=300))
    lines = [f"HTTP/1.1 {draw(st.sampled_from([200, 201, 404, 503]))} {draw(st.sampled_from(['OK', '', 'Not Found']))}"]
    lines += draw(st.lists(st.sampled_from(["Server: x", "X-Empty:", "date:\tnow ", "Connection: close"]), max_size=3))
    before = draw(st.sampled_from([b"", head("HTTP/1.1 100 Continue"), head("HTTP/1.1 103 Early", "Link: </x>")]))
    form = draw(st.sampled_from(["length", "chunked", "end"]))
    if form == "length":
        return before + head(*lines, f"content-LENGTH: {len(body)}") + body
    if form == "end":
        return before + head(*lines) + body
    pieces, at = b"", 0
    while at < len(body):
        size = draw(st.integers(1, len(body) - at))
        pieces += f"{size:x}{draw(st.sampled_from(['', ';a=b']))}\r\n".encode() + body[at : at + size] + b"\r\n"
        at += size
    return before + head(*lines, "Transfer-Encoding: chunked") + pieces + b"0\r\n\r\n"


@settings(max_examples=50)
@given(answers(), st.integers(1, 400))
def test_an_answer_is_read_as_the_standard_library_reads_it_however_it_comes(data: bytes, piece: int) -> None:
    known = http.client.HTTPResponse(cast(Any, Line(data)))
    known.begin()
    while known.status < 200:  # it knows 100 alone
        known = http.client.HTTPResponse(cast(Any, Line(data.partition(b"\r\n\r\n")[2])))
        known.begin()
    expected = (known.status, known.read())
    assert told(data, piece)[:2] == expected


@settings(max_examples=50)
@given(answers(), st.data())
def test_an_answer_that_breaks_off_is_never_taken_for_a_whole_one(data: bytes, draw: st.DataObject) -> None:
    cut = data[: draw.draw(st.integers(0, len(data) - 1))]
    ends_itself = b"chunked" in data or b"LENGTH" in data
    if not ends_itself and b"\r\n\r\n" in cut:
        return  # only the end of the connection ends such a one
    with pytest.raises((NotHttp, HungUp)):
        told(cut)


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_whatever_comes_is_an_answer_or_is_told_to_be_none(data: bytes) -> None:
    with contextlib.suppress(NotHttp):
        told(b"HTTP/1.1 200 OK\r\n" + data)


@pytest.mark.parametrize(
    "data",
    [
        head("HTTP/2 200 OK"),
        head("HTTP/1.1 OK"),
        head("HTTP/1.1 101 Switching Protocols"),
        head("HTTP/1.1 2000 OK"),
        head("HTTP/1.1 200 OK", "no colon"),
        head("HTTP/1.1 200 OK", " folded: 1"),
        head("HTTP/1.1 200 OK", "Content-Length: -1"),
        head("HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 2"),
        head("HTTP/1.1 200 OK", "Content-Length: \u0661"),
        head("HTTP/1.1 200 OK", "Transfer-Encoding: gzip, chunked"),
        head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + b"0x2\r\nab\r\n0\r\n\r\n",
        head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + b"2\r\nabc\r\n0\r\n\r\n",
        head("HTTP/1.1 200 OK", *["a: b"] * (MOST_HEADERS + 1)),
        head("HTTP/1.1 200 OK", "a: " + "b" * (MOST_LINE_BYTES + (1 << 18))),
        head("HTTP/1.1 100 Continue") * (MOST_INTERIM_ANSWERS + 1) + head("HTTP/1.1 204 No Content"),
        b"220 mail.example ESMTP\r\n",
    ],
)
def test_what_is_no_answer_is_told_as_such(data: bytes) -> None:
    with pytest.raises(NotHttp):
        told(data)


def test_a_connection_that_ends_before_an_answer_has_hung_up() -> None:
    with pytest.raises(HungUp):
        told(b"")


@pytest.mark.parametrize(
    ("data", "reusable"),
    [
        (head("HTTP/1.1 200 OK", "Content-Length: 2") + b"ok", True),
        (head("HTTP/1.1 204 No Content"), True),
        (head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + b"0\r\nTrailer: x\r\n\r\n", True),
        (head("HTTP/1.1 200 OK", "Content-Length: 2", "Connection: Keep, Close") + b"ok", False),
        (head("HTTP/1.0 200 OK", "Content-Length: 2") + b"ok", False),
        (head("HTTP/1.1 200 OK") + b"ok", False),
        (head("HTTP/1.1 200 OK", "Content-Length: 2") + b"ok and more", False),
    ],
)
def test_a_connection_is_kept_where_its_answer_ended_and_nothing_else_came(data: bytes, reusable: bool) -> None:
    assert told(data)[2] is reusable


def test_a_connection_is_not_kept_before_the_answer_was_read() -> None:
    connection = asked(head("HTTP/1.1 200 OK", "Content-Length: 2") + b"ok")
    blocks: Iterator[bytes] = connection.ask("GET", "/", {}).blocks()
    assert not connection.reusable
    assert b"".join(blocks) == b"ok"
    assert connection.reusable


def test_a_request_is_one_piece_with_the_length_of_its_body() -> None:
    assert request_bytes("POST", "/a?b=c", {"Host": "h"}, b"{}") == (
        b"POST /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(("target", "header"), [("/a b", "x"), ("/a\r\nX: y", "x"), ("/a", "x\r\nY: z"), ("/a", "x\0")])
def test_what_would_be_read_as_another_request_is_not_sent(target: str, header: str) -> None:
    with pytest.raises(ValueError, match="cannot be asked for"):
        request_bytes("GET", target, {"Authorization": header}, None)
