import asyncio
from contextlib import suppress

import pytest

from corral.features.tuner.measuring.chat_stream import MOST_TEXT_BYTES, ChatServer, RequestFailed, TimedAnswer

WORD = b'{"choices": [{"delta": {"content": "a"}}]}'


def asked(*events: bytes) -> TimedAnswer:
    """What is measured of a server that streams these events."""
    body = b"".join(b"data: %b\n\n" % event for event in (*events, b"[DONE]"))
    return answered(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def answered(data: bytes, for_ever: bytes = b"") -> TimedAnswer:
    """What is measured of a server that sends these bytes, and then others for ever."""

    async def ask() -> TimedAnswer:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            with suppress(ConnectionError):
                while for_ever:
                    writer.write(for_ever)
                    await writer.drain()
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await ChatServer(f"http://127.0.0.1:{port}").ask({"messages": []})

    return asyncio.run(ask())


@pytest.mark.parametrize("event", [b"5", b"[]", b'{"choices": 5}', b'{"choices": [5]}', b'{"usage": 5}', b"[" * 20_000])
def test_an_answer_of_any_shape_is_a_failed_request(event: bytes) -> None:
    """An error of another kind would end the worker unseen, and the level would look as if nothing had failed."""
    with pytest.raises(RequestFailed):
        asked(event)


@pytest.mark.parametrize("tokens", [b'"many"', b"-3", b"NaN", b"true", b"[1]", b"9" * 400])
def test_a_number_of_tokens_that_cannot_be_one_is_counted_here(tokens: bytes) -> None:
    answer = asked(
        WORD, WORD, b'{"choices": [], "usage": {"prompt_tokens": %b, "completion_tokens": %b}}' % (tokens, tokens)
    )
    assert (answer.prompt_tokens, answer.output_tokens) == (None, 2)


def test_pieces_of_any_size_are_read_as_the_events_in_them() -> None:
    data = b"data: %b\r\n\r\ndata: %b\n\ndata: [DONE]\n\n" % (WORD, WORD)
    pieces = b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in (data[:9], data[9:60], data[60:]))
    answer = answered(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % pieces)
    assert answer.output_tokens == 2


@pytest.mark.parametrize(
    ("data", "for_ever", "code"),
    [
        (b"", b"", "answer"),
        (b"220 mail.example ESMTP\r\n", b"", "answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ndata", b"", "answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nno event.", b"", "empty"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nfull", b"", "503"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", "answer"),
        (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", "answer"),
        (b"HTTP/1.1 200 OK\r\n\r\ndata: ", b"x" * 10_000, "answer"),
        (b"HTTP/1.1 500 Oh\r\n\r\n", b"x" * 10_000, "500"),
    ],
)
def test_a_server_that_breaks_off_or_never_ends_is_a_failed_request(data: bytes, for_ever: bytes, code: str) -> None:
    with pytest.raises(RequestFailed) as failed:
        answered(data, for_ever)
    assert failed.value.code == code
    assert len(str(failed.value)) <= MOST_TEXT_BYTES
