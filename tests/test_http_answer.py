"""How answers of HTTP/1.1 are read: as other readers read them, however their bytes are cut up, and within bounds."""

import contextlib
import http.client
import io
import itertools
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import h11
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corral.http_answer import (
    MOST_HEAD_BYTES,
    MOST_HEADERS,
    MOST_INTERIM_ANSWERS,
    MOST_SIZE_LINE_BYTES,
    Answer,
    CutShort,
    HungUp,
    NotHttp,
    begun,
    blocks,
    request_bytes,
)

Told = tuple[int, bytes, bool]
"""Status and body of an answer, and whether its connection can have another request."""

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EVERY_BYTE, AT_ONCE = 1, 1 << 20


def coming(parts: Iterable[bytes]) -> Callable[[], bytes]:
    """A connection that brings these parts, and then ends."""
    left = iter(parts)
    return lambda: next(left, b"")


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def told(data: bytes, size: int = AT_ONCE) -> Told:
    receive = coming(cut(data, size))
    answer = begun(receive)
    body = b"".join(blocks(answer, receive))
    return answer.status, body, answer.reusable


def outcome(data: bytes, size: int) -> tuple[int, bytes] | type[NotHttp]:
    """Status and body of the answer, or which exception is raised."""
    return outcome_of(cut(data, size))


def outcome_of(parts: Iterable[bytes]) -> tuple[int, bytes] | type[NotHttp]:
    receive = coming(parts)
    try:
        answer = begun(receive)
        return answer.status, b"".join(blocks(answer, receive))
    except NotHttp as error:
        return type(error)


def head(*lines: str) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1")


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


@st.composite
def spoilt_answers(draw: st.DrawFn) -> bytes:
    """An answer with a few bytes changed, added or left out, where it matters."""
    data = draw(answers())
    marks = [b"\r", b"\n", b"\r\n", b" ", b"\t", b";", b":", b",", b"0", b"1", b"a", b"\0", b"-", b"_", b"x"]
    marks += [b"\r\nContent-Length: 3", b"\r\nTransfer-Encoding: chunked", b"HTTP/1.1 200 OK\r\n", b"\r\n\r\n", b""]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.sampled_from(marks)) + data[at + draw(st.integers(0, 2)) :]
    return data


@settings(max_examples=50)
@given(answers(), st.integers(1, 400))
def test_an_answer_is_read_as_the_standard_library_reads_it_however_it_comes(data: bytes, size: int) -> None:
    known = http.client.HTTPResponse(cast(Any, Line(data)))
    known.begin()
    while known.status < 200:  # it knows 100 alone
        known = http.client.HTTPResponse(cast(Any, Line(data.partition(b"\r\n\r\n")[2])))
        known.begin()
    expected = (known.status, known.read())
    assert told(data, size)[:2] == expected


class Line:
    """A connection as `http.client` reads one."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def makefile(self, mode: str) -> io.BytesIO:
        return self._data


@settings(max_examples=300)
@example(b"HTTP/1.1 200 \n\r\ncontent-length: 0\r\n\r\n", 1)
@given(st.one_of(answers(), spoilt_answers()), st.integers(1, 60))
def test_an_answer_that_another_reader_takes_is_the_same_to_both(data: bytes, size: int) -> None:
    """Two readers that see two answers in the same bytes are how one answer is smuggled past the other reader."""
    try:
        expected = told_by_h11(data, size)
    except h11.ProtocolError:
        return
    with contextlib.suppress(NotHttp):
        found = told(data, size)
        assert found[:2] == expected[:2]
        assert expected[2] or not found[2], "no connection is kept that the other reader would not keep"


def told_by_h11(data: bytes, size: int) -> Told:
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
    connection.send(h11.EndOfMessage())
    parts, status, body = iter([*cut(data, size), b""]), 0, b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(next(parts))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            kept = connection.their_state is h11.DONE and not connection.trailing_data[0]
            return status, body, kept
        elif isinstance(event, h11.ConnectionClosed):
            raise h11.RemoteProtocolError("no answer")


@settings(max_examples=200)
@given(st.one_of(spoilt_answers(), st.binary(max_size=200).map(lambda data: b"HTTP/1.1 200 OK\r\n" + data)), st.data())
def test_whatever_comes_is_an_answer_or_none_however_it_is_cut_up(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    parts = [data[start:end] for start, end in itertools.pairwise([0, *cuts, len(data)]) if start < end]
    assert outcome_of(parts) == outcome(data, EVERY_BYTE) == outcome(data, AT_ONCE)


@settings(max_examples=50)
@given(answers(), st.data())
def test_an_answer_that_breaks_off_is_never_taken_for_a_whole_one(data: bytes, draw: st.DataObject) -> None:
    broken = data[: draw.draw(st.integers(0, len(data) - 1))]
    ends_itself = b"chunked" in data or b"LENGTH" in data
    if not ends_itself and b"\r\n\r\n" in broken:
        return  # only the end of the connection ends such a one
    with pytest.raises(CutShort):
        told(broken)


@pytest.mark.parametrize("size", [EVERY_BYTE, AT_ONCE])
@pytest.mark.parametrize(
    "data",
    [
        head("HTTP/2 200 OK"),
        head("HTTP/1.1 OK"),
        head("HTTP/1.1 okay"),
        head("HTTP/1.1 101 Switching Protocols"),
        head("HTTP/1.1 2000 OK"),
        head("HTTP/1.1 200 OK", "no colon"),
        head("HTTP/1.1 200 OK", "a: b", " folded: 1"),
        head("HTTP/1.1 200 OK", "Content-Length : 1"),
        head("HTTP/1.1 200 OK", "Content Length: 1"),
        head("HTTP/1.1 200 OK", "a: b\rContent-Length: 1"),
        head("HTTP/1.1 200 OK", "a: b\nContent-Length: 1"),
        head("HTTP/1.1 200 OK", "a: b\0"),
        head("HTTP/1.1 200 OK", "Content-Length: -1"),
        head("HTTP/1.1 200 OK", "Content-Length: +1"),
        head("HTTP/1.1 200 OK", "Content-Length: 5, 6"),
        head("HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 2"),
        head("HTTP/1.1 200 OK", "Content-Length: \xb2"),
        head("HTTP/1.1 200 OK", "Content-Length: " + "9" * 16),
        head("HTTP/1.1 200 OK", "Transfer-Encoding: gzip, chunked"),
        head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked, chunked"),
        head("HTTP/1.1 200 OK", "Transfer-Encoding: \x0bchunked"),
        *(
            CHUNKED + size + b"\r\nab\r\n0\r\n\r\n"
            for size in (b"0x2", b"-2", b"+2", b"2_", b" 2", b"", b"two", b"2,2")
        ),
        CHUNKED + b"2\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"2\r\nab\n0\r\n\r\n",
        CHUNKED + b"1" * 16 + b"\r\nab",
        head("HTTP/1.1 200 OK", *["a: b"] * (MOST_HEADERS + 1)),
        head("HTTP/1.1 200 OK", "a: " + "b" * MOST_HEAD_BYTES),
        head("HTTP/1.1 100 Continue") * (MOST_INTERIM_ANSWERS + 1) + head("HTTP/1.1 204 No Content"),
        b"220 mail.example ESMTP\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    ],
)
def test_what_is_no_answer_is_told_as_such(data: bytes, size: int) -> None:
    assert outcome(data, size) is NotHttp


@pytest.mark.parametrize("size", [EVERY_BYTE, AT_ONCE])
@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-",
        head("HTTP/1.1 200 OK", "Content-Length: 5") + b"hel",
        CHUNKED + b"5\r\nhel",
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"5\r\nhello\r\n0\r\n",
        CHUNKED + b"0\r\nTrailer: x\r\n",
    ],
)
def test_an_answer_that_breaks_off_is_told_from_one_that_makes_no_sense(data: bytes, size: int) -> None:
    assert outcome(data, size) is CutShort


def test_a_connection_that_ends_before_an_answer_has_hung_up() -> None:
    assert outcome(b"", AT_ONCE) is HungUp


def endless(before: bytes, again: bytes) -> Iterator[bytes]:
    yield before
    yield from itertools.repeat(again)


@pytest.mark.parametrize(
    ("before", "again", "most_bytes"),
    [
        (b"", head("HTTP/1.1 100 Continue"), 26 * (MOST_INTERIM_ANSWERS + 1)),
        (b"", b"HTTP", MOST_HEAD_BYTES),
        (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", MOST_HEAD_BYTES),
        (b"HTTP/1.1 200 OK\r\na: ", b"b", MOST_HEAD_BYTES),
        (CHUNKED, b"1", MOST_SIZE_LINE_BYTES),
        (CHUNKED + b"1;", b"a=b;", MOST_SIZE_LINE_BYTES),
        (CHUNKED + b"0\r\n", b"a: b\r\n", MOST_HEAD_BYTES),
    ],
)
def test_nothing_that_a_server_sends_for_ever_is_read_for_ever(before: bytes, again: bytes, most_bytes: int) -> None:
    read = 0

    def receive() -> bytes:
        nonlocal read
        part = next(parts)
        read += len(part)
        return part

    parts = endless(before, again)
    with pytest.raises(NotHttp):
        list(blocks(begun(receive), receive))
    assert read <= len(before) + most_bytes + len(again)


def test_a_long_answer_takes_no_memory() -> None:
    """Sizes as long as they may be, before pieces of a byte: of 20 MB little is held at a time."""
    piece = b"1;" + b"a" * (MOST_SIZE_LINE_BYTES - 10) + b"\r\n.\r\n"
    receive = coming(itertools.chain([CHUNKED], itertools.repeat(piece, 5_000), [b"0\r\n\r\n"]))
    answer = begun(receive)
    tracemalloc.start()
    try:
        assert sum(map(len, blocks(answer, receive))) == 5_000
        assert tracemalloc.get_traced_memory()[1] < 1 << 18
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "body", "reusable"),
    [
        (head("HTTP/1.1 200 OK", "Content-Length: 2") + b"ok", b"ok", True),
        (head("HTTP/1.1 204 No Content"), b"", True),
        (head("HTTP/1.1 304 Not Modified", "Content-Length: 2"), b"", True),
        (CHUNKED + b"2\r\nok\r\n0\r\nTrailer: x\r\n\r\n", b"ok", True),
        (head("HTTP/1.1 200 OK", "Content-Length: 2", "Connection: Keep, Close") + b"ok", b"ok", False),
        (head("HTTP/1.0 200 OK", "Content-Length: 2") + b"ok", b"ok", False),
        (head("HTTP/1.1 200 OK") + b"ok", b"ok", False),
        (head("HTTP/1.1 200 OK", "Content-Length: 2") + b"ok and more", b"ok", False),
        (head("HTTP/1.1 200 OK", "Content-Length: 2") + b"okHTTP/1.1 200 OK\r\n", b"ok", False),
        (head("HTTP/1.1 204 No Content") + head("HTTP/1.1 204 No Content"), b"", False),
        (CHUNKED + b"2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n", b"ok", False),
        (
            head("HTTP/1.1 200 OK", "Content-Length: 3", "Transfer-Encoding: chunked") + b"2\r\nok\r\n0\r\n\r\n",
            b"ok",
            False,
        ),
    ],
)
def test_a_connection_is_kept_where_its_answer_ended_and_nothing_else_came(
    data: bytes, body: bytes, reusable: bool
) -> None:
    assert told(data)[1:] == (body, reusable)


def test_a_connection_is_not_kept_before_the_answer_has_come_and_was_read() -> None:
    answer = Answer()
    answer.feed(head("HTTP/1.1 200 OK", "Content-Length: 2") + b"o")
    assert not answer.reusable
    answer.feed(b"k")
    assert not answer.reusable
    assert b"".join(answer.taken()) == b"ok"
    assert answer.reusable


def test_the_head_has_the_status_and_the_headers_by_names_in_lower_case() -> None:
    answer = Answer()
    answer.feed(head("HTTP/1.1 201 Created", "Content-Length: 13", "Retry-After:  7 ", "A: 1", "a: 2"))
    assert (answer.status, answer.headers) == (201, {"content-length": "13", "retry-after": "7", "a": "1, 2"})


@pytest.mark.parametrize("banner", [b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\0\x02\x02\x0a", b"H1"])
def test_another_protocol_is_told_at_once(banner: bytes) -> None:
    """Its server would wait for us, and we for it."""
    with pytest.raises(NotHttp, match="the answer begins with"):
        Answer().feed(banner)


def test_a_part_is_told_before_the_next_has_come() -> None:
    sent = iter([CHUNKED + b"3\r\none\r\n"])
    receive = lambda: next(sent)  # noqa: E731
    assert next(blocks(begun(receive), receive)) == b"one"


def test_a_request_is_one_piece_with_the_length_of_its_body() -> None:
    assert request_bytes("POST", "/a?b=c", {"Host": "h"}, b"{}") == (
        b"POST /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(
    ("target", "header"),
    [
        ("/a b", "x"),
        ("/a\r\nHost: elsewhere", "x"),
        ("/\N{SNOWMAN}", "x"),
        ("/a", "Bearer a\r\nImpersonate-User: b"),
        ("/a", "x\0"),
    ],
)
def test_what_would_be_read_as_another_request_is_not_sent(target: str, header: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be asked for|codec can't encode"):
        request_bytes("GET", target, {"Authorization": header}, None)
