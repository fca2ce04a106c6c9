"""Send a job's log from any byte on, also while the log grows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from anyio import create_task_group

from corral.api.answers.streams import BrokenOff
from corral.api.answers.waiting import LOOK_AGAIN_S, EndSignal, InputNotices

_SOONEST_S = 0.02
_LATEST_S = 0.05
_ECHO_S = 0.001
"""The pause before the next read of a log after its job was given input."""
_ANSWERING_S = 0.2
"""For this time after an input, the log is read at the pace of `_ECHO_S`."""
_LONGEST_LINE = 64 * 1024
"""With several logs, a longer line is sent in parts, because the start of an unfinished line is kept in memory."""

Read = Callable[[int], Awaitable[bytes]]
"""Read a piece of a log from a byte on. It is b"" if there is nothing (yet)."""


class Pieces(Protocol):
    """A source of pieces to send."""

    async def next(self) -> bytes:
        """The next piece; b"" if there is none (yet)."""
        ...

    def rest(self) -> bytes:
        """The bytes that are left to send after the last piece."""
        ...


class OneLog:
    """A log from byte `offset` on, unchanged."""

    def __init__(self, read: Read, offset: int) -> None:
        self._read = read
        self._offset = offset

    async def next(self) -> bytes:
        piece = await self._read(self._offset)
        self._offset += len(piece)
        return piece

    def rest(self) -> bytes:
        return b""


class AllLogs:
    """The logs of all members of a gang as one stream: whole lines as they come, each with its rank, "[2] line"."""

    def __init__(self, logs: Sequence[OneLog]) -> None:
        self._logs = logs
        self._rests = [b""] * len(logs)

    async def next(self) -> bytes:
        while any(pieces := await self._read_all()):
            if lines := b"".join(self._take(rank, piece) for rank, piece in enumerate(pieces)):
                return lines
        return b""

    async def _read_all(self) -> list[bytes]:
        """The next piece of each log, all read at once. Raises the first error, and starts no other read after it."""
        pieces = [b""] * len(self._logs)

        async def read(rank: int) -> None:
            pieces[rank] = await self._logs[rank].next()

        try:
            async with create_task_group() as tasks:
                for rank in range(len(self._logs)):
                    tasks.start_soon(read, rank)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return pieces

    def _take(self, rank: int, piece: bytes) -> bytes:
        *whole, rest = (self._rests[rank] + piece).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            whole, rest = [*whole, rest], b""
        self._rests[rank] = rest
        return b"".join(b"[%d] %b\n" % (rank, line) for line in whole)

    def rest(self) -> bytes:
        return b"".join(b"[%d] %b\n" % (rank, rest) for rank, rest in enumerate(self._rests) if rest)


async def read_log(first: bytes, pieces: Pieces) -> AsyncIterator[bytes]:
    """Yield the log as it is now. `first` is the piece that was read already."""
    piece, first = first, b""
    while piece:
        yield piece
        piece = await pieces.next()
    if rest := pieces.rest():
        yield rest


async def follow_log(
    first: bytes,
    pieces: Pieces,
    job_id: str,
    has_ended: Callable[[], Awaitable[bool]],
    *,
    signal: EndSignal,
    inputs: InputNotices,
) -> AsyncIterator[bytes]:
    """Yield the log as it is now, then everything that is added until the job has ended.

    `first` is the piece that was read already. After the job was given input, the log is read again within
    milliseconds, because a user may wait for the echo of a key.

    Raises BrokenOff if the server stops before the job has ended.
    """
    loop = asyncio.get_running_loop()
    with signal.waiter([job_id]) as waiter, inputs.following(job_id, waiter):
        ended = await has_ended()
        looked_at, pause_s, woken_at = loop.time(), _SOONEST_S, float("-inf")
        if first:
            yield first
            # Free the memory: a slow reader may take long before it asks for the next piece.
            first = b""
        while True:
            # `ended` was determined before this read, so that no output before the end is missed.
            grew = False
            while piece := await pieces.next():
                grew = True
                yield piece
            if ended:
                if rest := pieces.rest():
                    yield rest
                return
            if signal.closed:
                raise BrokenOff
            if grew:
                pause_s = _ECHO_S if loop.time() - woken_at < _ANSWERING_S else _SOONEST_S
            woken = await waiter.woken(pause_s)
            pause_s = min(1.5 * pause_s, _LATEST_S)
            if woken:
                woken_at, pause_s = loop.time(), _ECHO_S
            if woken or loop.time() - looked_at > LOOK_AGAIN_S:
                ended = await has_ended()
                looked_at = loop.time()
