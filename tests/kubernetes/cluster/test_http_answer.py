"""What an API server's answer is read as, however its bytes are cut up on the way."""

from collections.abc import Callable
from http.client import HTTPException, IncompleteRead, InvalidURL, RemoteDisconnected

import pytest

from corral.kubernetes.cluster.http_answer import MOST_HEAD_BYTES, HttpAnswer, request_bytes

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n8;x=y\r\n, world!\r\n0\r\nSum: 1\r\n\r\n"
MEASURED = b"HTTP/1.1 201 Created\r\nContent-Length: 13\r\nRetry-After:  7 \r\n\r\nhello, world!"
TO_THE_END = b"HTTP/1.1 200 OK\r\n\r\nhello, world!"


def coming(data: bytes, size: int = 1 << 16) -> Callable[[], bytes]:
    """A connection on which these bytes come, so many at a time, and then nothing any more."""
    parts = iter([data[at : at + size] for at in range(0, len(data), size)])
    return lambda: next(parts, b"")


def body(answer: HttpAnswer) -> bytes:
    return b"".join(answer.blocks())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 16])
@pytest.mark.parametrize("sent", [CHUNKED, MEASURED, TO_THE_END])
def test_a_body_is_the_same_however_it_is_cut_up(sent: bytes, size: int) -> None:
    answer = HttpAnswer(coming(sent, size))
    assert body(answer) == b"hello, world!"
    assert answer.reusable == (sent is not TO_THE_END)


def test_the_head_has_the_status_and_the_headers_by_names_in_lower_case() -> None:
    answer = HttpAnswer(coming(MEASURED))
    assert (answer.status, answer.headers) == (201, {"content-length": "13", "retry-after": "7"})


def test_a_part_is_told_before_the_next_has_come() -> None:
    sent = iter([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"])
    blocks = HttpAnswer(lambda: next(sent)).blocks()
    assert next(blocks) == b"one"


def test_an_answer_to_come_is_no_answer() -> None:
    assert HttpAnswer(coming(b"HTTP/1.1 100 Continue\r\n\r\n" + MEASURED)).status == 201


def test_some_answers_have_no_body() -> None:
    answer = HttpAnswer(coming(b"HTTP/1.1 204 No Content\r\n\r\n"))
    assert body(answer) == b""
    assert answer.reusable


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more than was said",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
    ],
)
def test_a_connection_on_which_another_answer_cannot_be_told_apart_is_not_used_again(sent: bytes) -> None:
    answer = HttpAnswer(coming(sent))
    assert body(answer) == b"ok"
    assert not answer.reusable


def test_a_connection_whose_answer_has_not_come_is_not_used_again() -> None:
    assert not HttpAnswer(coming(MEASURED[:-1])).reusable


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", RemoteDisconnected),
        (b"HTTP/1.1 200 OK\r\nContent-", RemoteDisconnected),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", HTTPException),
        (b"HTTP/1.1 okay\r\n\r\n", HTTPException),
        (b"HTTP/1.1 200 OK\r\nA: " + b"a" * (MOST_HEAD_BYTES + 1), HTTPException),
    ],
)
def test_what_is_no_answer_is_said_to_be_none(sent: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        HttpAnswer(coming(sent))


@pytest.mark.parametrize("size", [1, 1 << 16])
@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"Content-Length: 5\r\n\r\nhel", IncompleteRead),
        (b"Content-Length: -5\r\n\r\nhello", HTTPException),
        (b"Content-Length: 5, 6\r\n\r\nhello", HTTPException),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel", IncompleteRead),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", IncompleteRead),
        (b"Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n", HTTPException),
        (b"Transfer-Encoding: chunked\r\n\r\n-3\r\nhello\r\n0\r\n\r\n", HTTPException),
        (b"Transfer-Encoding: chunked\r\n\r\nfive\r\nhello\r\n0\r\n\r\n", HTTPException),
    ],
)
def test_a_body_that_breaks_off_or_makes_no_sense_is_no_body(sent: bytes, size: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        body(HttpAnswer(coming(b"HTTP/1.1 200 OK\r\n" + sent, size)))


def test_a_request_is_one_piece_with_its_body() -> None:
    sent = request_bytes("POST", "/api?a=b", {"Host": "there"}, b"{}")
    assert sent == b"POST /api?a=b HTTP/1.1\r\nHost: there\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("target", ["/a b", "/a\r\nHost: elsewhere", "/\N{SNOWMAN}"])
def test_a_target_that_would_be_read_as_more_than_one_is_not_sent(target: str) -> None:
    with pytest.raises(InvalidURL):
        request_bytes("GET", target, {}, None)


def test_a_header_that_would_be_read_as_two_is_not_sent() -> None:
    with pytest.raises(HTTPException):
        request_bytes("GET", "/", {"Authorization": "Bearer a\r\nImpersonate-User: b"}, None)
