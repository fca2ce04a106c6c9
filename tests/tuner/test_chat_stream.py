import asyncio

import pytest

from corral.tuner.chat_stream import ChatServer, RequestFailed, TimedAnswer

WORD = b'{"choices": [{"delta": {"content": "a"}}]}'


def asked(*events: bytes) -> TimedAnswer:
    """What is measured of a server that streams these events."""

    async def ask() -> TimedAnswer:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            body = b"".join(b"data: %b\n\n" % event for event in (*events, b"[DONE]"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
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


@pytest.mark.parametrize("tokens", [b'"many"', b"-3", b"NaN", b"true", b"[1]"])
def test_a_number_of_tokens_that_cannot_be_one_is_counted_here(tokens: bytes) -> None:
    answer = asked(
        WORD, WORD, b'{"choices": [], "usage": {"prompt_tokens": %b, "completion_tokens": %b}}' % (tokens, tokens)
    )
    assert (answer.prompt_tokens, answer.output_tokens) == (None, 2)
