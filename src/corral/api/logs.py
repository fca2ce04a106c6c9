"""Sends a job's log from any byte on, also while it grows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from corral.api.waiting import LOOK_AGAIN_S, EndSignal

_SOONEST_S = 0.02
_LATEST_S = 0.05


Read = Callable[[int], Awaitable[bytes]]
"""Reads a piece of the log from a byte on, b"" where there is nothing (yet)."""


async def read_log(first: bytes, read: Read, offset: int) -> AsyncIterator[bytes]:
    """The bytes of the log from `offset` on that are there now, `first` being what was read already."""
    chunk = first
    while chunk:
        yield chunk
        offset += len(chunk)
        chunk = await read(offset)


async def follow_log(
    read: Read, offset: int, job_id: str, has_ended: Callable[[], Awaitable[bool]], signal: EndSignal
) -> AsyncIterator[bytes]:
    """As `read_log`, and then what is added, until the job has ended and everything was sent.

    Raises BrokenOff if the server stops before that.
    """
    loop = asyncio.get_running_loop()
    with signal.waiter([job_id]) as waiter:
        ended = await has_ended()
        looked_at, pause_s = loop.time(), _SOONEST_S
        while True:
            # `ended` was learnt before this read, so that nothing written before the end is missed.
            grew = False
            while chunk := await read(offset):
                grew = True
                offset += len(chunk)
                yield chunk
            if ended:
                return
            if signal.closed:
                raise BrokenOff
            pause_s = _SOONEST_S if grew else min(1.5 * pause_s, _LATEST_S)
            if await waiter.woken(pause_s) or loop.time() - looked_at > LOOK_AGAIN_S:
                ended = await has_ended()
                looked_at = loop.time()


class BrokenOff(Exception):
    """The server stops while the log may still grow; its end must not look like the end of the log."""


class LogResponse(StreamingResponse):
    """Sends a log. If it breaks off, the connection is closed without the last chunk, which tells the client."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except BrokenOff:
            scope["state"]["hang_up"]()
            # The loop gets to close the connection before the server looks whether the answer was completed.
            await asyncio.sleep(0)
