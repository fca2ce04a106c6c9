"""Sends a job's log from any byte on, also while it grows."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from anyio import to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from corral.api.waiting import LOOK_AGAIN_S, EndSignal
from corral.model.errors import BackendFailed

CHUNK_BYTES = 256 * 1024
_SOONEST_S = 0.02
_LATEST_S = 0.05


def check_log(path: Path) -> None:
    """Raises BackendFailed if the log is not a file. Called first: once an answer has begun it is too late."""
    fd = _open_log(path)
    if fd >= 0:
        os.close(fd)


async def read_log(path: Path, offset: int) -> AsyncIterator[bytes]:
    """The bytes that the log has now, from `offset` on; none if there is no log yet."""
    with _LogFile(path, offset) as log:
        while chunk := await log.read():
            yield chunk


async def follow_log(
    path: Path, offset: int, job_id: str, has_ended: Callable[[], Awaitable[bool]], signal: EndSignal
) -> AsyncIterator[bytes]:
    """As `read_log`, and then what is added, until the job has ended and everything was sent.

    Raises BrokenOff if the server stops before that.
    """
    loop = asyncio.get_running_loop()
    with signal.waiter([job_id]) as waiter, _LogFile(path, offset) as log:
        ended = await has_ended()
        looked_at, pause_s = loop.time(), _SOONEST_S
        while True:
            # `ended` was learnt before this read, so that nothing written before the end is missed.
            grew = False
            while chunk := await log.read():
                grew = True
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


class _LogFile:
    """A log that may not exist yet; opened once it does."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self._offset = offset
        self._fd = -1

    def __enter__(self) -> "_LogFile":
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    async def read(self) -> bytes:
        """The next bytes, b"" when there are none now."""
        if self._fd < 0:
            self._fd = _open_log(self._path)
        # RequestRules for the size costs microseconds; reading may wait for the disk, which must not hold up the loop.
        if self._fd < 0 or os.fstat(self._fd).st_size <= self._offset:
            return b""
        chunk = await to_thread.run_sync(os.pread, self._fd, CHUNK_BYTES, self._offset)
        self._offset += len(chunk)
        return chunk


def _open_log(path: Path) -> int:
    try:
        # No link and no pipe: what a job may have put in its log's place must neither lead elsewhere nor block.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise BackendFailed(f"cannot read the log {path}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise BackendFailed(
            f"cannot read the log {path}: it is no longer a regular file (the job may have replaced it)"
        )
    return fd
