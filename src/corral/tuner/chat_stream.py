"""One streamed chat completion over HTTP, timed as it comes.

With asyncio's streams alone: a load generator must not be what limits the load, and needs no more of HTTP than this.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

MOST_LINE_BYTES = 1 << 20
MOST_TEXT_BYTES = 2_000
"""Of an answer that is an error, so much is kept."""


_MOST_WORDS = 300


class RequestFailed(Exception):
    """A request got no good answer. `code` is the HTTP status, or a word where there was none."""

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
        """Seconds for each token after the first; None of an answer with one."""
        return (self.e2e_s - self.ttft_s) / (self.output_tokens - 1) if self.output_tokens > 1 else None


@dataclass(frozen=True, slots=True)
class ChatServer:
    """An OpenAI-compatible server, by its address without /v1; `api_key` "" sends none."""

    url: str
    api_key: str = ""

    async def ask(self, body: Mapping[str, Any]) -> TimedAnswer:
        """Send a chat completion that streams, and read it to its end. Raises RequestFailed."""
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
        except Exception as error:
            # Whatever it is that the server answered.
            raise RequestFailed("answer", f"the answer broke off or makes no sense: {error!s:.{_MOST_WORDS}}") from None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        context = ssl.create_default_context() if secure else None
        return await asyncio.open_connection(parts.hostname, port, ssl=context, limit=MOST_LINE_BYTES)

    def _request(self, body: Mapping[str, Any]) -> bytes:
        parts = urlsplit(self.url)
        data = json.dumps(body).encode()
        lines = [
            f"POST {parts.path.rstrip('/')}/v1/chat/completions HTTP/1.1",
            f"Host: {parts.netloc}",
            "Content-Type: application/json",
            f"Content-Length: {len(data)}",
            "Connection: close",
        ]
        if self.api_key:
            lines.append(f"Authorization: Bearer {self.api_key}")
        return "\r\n".join([*lines, "", ""]).encode() + data


async def _read_answer(reader: asyncio.StreamReader, begun: float) -> TimedAnswer:
    status, headers = await _read_head(reader)
    lines = _chunked_lines(reader) if "chunked" in headers.get("transfer-encoding", "") else _plain_lines(reader)
    if status != 200:
        text = b"\n".join([line async for line in lines])[:MOST_TEXT_BYTES]
        raise RequestFailed(str(status), text.decode(errors="replace") or f"HTTP status {status}")
    first = last = None
    pieces, usage = 0, dict[str, Any]()
    async for line in lines:
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
    """A number of tokens; None of what cannot be one."""
    return value if type(value) is int and value >= 0 else None


def _says_something(event: Mapping[str, Any]) -> bool:
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or {}
        if delta.get("content") or delta.get("reasoning_content"):
            return True
    return False


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    status = (await reader.readline()).split(b" ", 2)
    if len(status) < 2 or not status[1].isdigit():
        raise RequestFailed("answer", "the server closed the connection without an answer")
    headers = {}
    while (line := (await reader.readline()).strip()) != b"":
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip().lower()
    return int(status[1]), headers


async def _plain_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while line := await reader.readline():
        yield line.strip()


async def _chunked_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    begun = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        if size + len(begun) > MOST_LINE_BYTES:
            raise ValueError(f"a line of more than {MOST_LINE_BYTES} bytes")
        *whole, begun = (begun + await reader.readexactly(size)).split(b"\n")
        await reader.readexactly(2)
        for line in whole:
            yield line.strip()
    if begun:
        yield begun.strip()
