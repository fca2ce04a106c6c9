"""Sends one streamed chat completion over HTTP, and times its tokens.

It uses only asyncio's streams, so that the load generator does not limit the load.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from corral.http_answer import Answer, NotHttp, request_bytes

MOST_LINE_BYTES = 1 << 20
MOST_TEXT_BYTES = 2_000
"""The most bytes of an error answer that are kept."""

MOST_TOKENS = 1_000_000_000
"""A server that counts more tokens in one answer does not count tokens."""

_READ_BYTES = 1 << 16
_MOST_WORDS = 300


class RequestFailed(Exception):
    """A request got no valid answer. `code` is the HTTP status, or a word if there was none."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """Seconds from the request to the first and the last token, and the tokens of prompt and answer."""

    ttft_s: float
    e2e_s: float
    prompt_tokens: int | None
    output_tokens: int

    @property
    def tpot_s(self) -> float | None:
        """Seconds for each token after the first; None for an answer with one token."""
        return (self.e2e_s - self.ttft_s) / (self.output_tokens - 1) if self.output_tokens > 1 else None


@dataclass(frozen=True, slots=True)
class ChatServer:
    """An OpenAI-compatible server, by its address without /v1. With `api_key` "" no key is sent."""

    url: str
    api_key: str = ""

    async def ask(self, body: Mapping[str, Any]) -> TimedAnswer:
        """Send a streaming chat completion, and read it to its end. Raises RequestFailed."""
        begun = time.perf_counter()
        try:
            reader, writer = await self._connected()
            try:
                writer.write(self._request(body))
                await writer.drain()
                return await _read_answer(reader, begun)
            finally:
                writer.close()
        except (OSError, ssl.SSLError) as error:
            raise RequestFailed("connection", f"{type(error).__name__}: {error}") from None
        except RequestFailed:
            raise
        except NotHttp as error:
            raise RequestFailed("answer", str(error)) from None
        except Exception as error:
            # The server may have answered anything.
            raise RequestFailed("answer", f"the answer broke off or makes no sense: {error!s:.{_MOST_WORDS}}") from None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        context = ssl.create_default_context() if secure else None
        return await asyncio.open_connection(parts.hostname, port, ssl=context)

    def _request(self, body: Mapping[str, Any]) -> bytes:
        parts = urlsplit(self.url)
        headers = {"Host": parts.netloc, "Content-Type": "application/json", "Connection": "close"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        path = f"{parts.path.rstrip('/')}/v1/chat/completions"
        return request_bytes("POST", path, headers, json.dumps(body).encode())


async def _read_answer(reader: asyncio.StreamReader, begun: float) -> TimedAnswer:
    answer = Answer()
    while not answer.begun:
        answer.feed(await reader.read(_READ_BYTES))
    if answer.status != 200:
        raise RequestFailed(str(answer.status), await _beginning(answer, reader) or f"HTTP status {answer.status}")
    first = last = None
    pieces, usage = 0, dict[str, Any]()
    async for line in _lines(answer, reader):
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            break
        event = json.loads(data)
        if "error" in event:
            raise RequestFailed("stream", str(event["error"])[:MOST_TEXT_BYTES])
        usage = event.get("usage") or usage
        if _says_something(event):
            last = time.perf_counter()
            first = last if first is None else first
            pieces += 1
    if first is None or last is None:
        raise RequestFailed("empty", "the answer ended without a token")
    return TimedAnswer(
        first - begun,
        last - begun,
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")) or pieces,
    )


def _count(value: Any) -> int | None:
    """Return a number of tokens, None for an invalid value."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _says_something(event: Mapping[str, Any]) -> bool:
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or {}
        if delta.get("content") or delta.get("reasoning_content"):
            return True
    return False


async def _beginning(answer: Answer, reader: asyncio.StreamReader) -> str:
    """Return the start of the body, at most MOST_TEXT_BYTES."""
    text = b""
    with suppress(NotHttp):
        async for block in _blocks(answer, reader):
            text += block
            if len(text) >= MOST_TEXT_BYTES:
                break
    return text[:MOST_TEXT_BYTES].decode(errors="replace").strip()


async def _lines(answer: Answer, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    begun = b""
    async for block in _blocks(answer, reader):
        *whole, begun = (begun + block).split(b"\n")
        for line in whole:
            yield line.strip()
        if len(begun) > MOST_LINE_BYTES:
            raise ValueError(f"a line of more than {MOST_LINE_BYTES} bytes")
    if begun:
        yield begun.strip()


async def _blocks(answer: Answer, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the body as it arrives; bytes that arrive together are one block."""
    while True:
        yield b"".join(answer.taken())
        if answer.complete:
            return
        answer.feed(await reader.read(_READ_BYTES))
