"""Sends a job's log from any byte on, also while it grows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from anyio import create_task_group

from corral.api.answers.streams import BrokenOff
from corral.api.answers.waiting import LOOK_AGAIN_S, EndSignal, InputNotices

_SOONEST_S = 0.02
_LATEST_S = 0.05
_ECHO_S = 0.001
"""How soon a log is looked at again after its job was given input."""
_ANSWERING_S = 0.2
"""For so long after that its output is looked for as often."""
_LONGEST_LINE = 64 * 1024
"""A line of one of several logs that is longer is sent as several: what waits for its end is kept in memory."""

Read = Callable[[int], Awaitable[bytes]]
"""Reads a piece of a log from a byte on, b"" where there is nothing (yet)."""


class Pieces(Protocol):
    """What is sent, piece by piece."""

    async def next(self) -> bytes:
        """The next piece, b"" where there is none (yet)."""
        ...

    def rest(self) -> bytes:
        """What is left to send once nothing comes any more."""
        ...


class OneLog:
    """A log from byte `offset` on, as it is."""

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
    """The logs of all members of a gang as one: whole lines as they come, with the rank before each, "[2] line"."""

    def __init__(self, logs: Sequence[OneLog]) -> None:
        self._logs = logs
        self._rests = [b""] * len(logs)

    async def next(self) -> bytes:
        while any(pieces := await self._read_all()):
            if lines := b"".join(self._take(rank, piece) for rank, piece in enumerate(pieces)):
                return lines
        return b""

    async def _read_all(self) -> list[bytes]:
        """The next piece of each log, all read at once. Raises the first error, and begins no other read then."""
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
    """What is there now, `first` being what was read already."""
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
    """What is there now, `first` being what was read already, and what is added until the job has ended.

    Once the job was given input it is looked at again within milliseconds, for somebody waits for the echo of a key.

    Raises BrokenOff if the server stops before that.
    """
    loop = asyncio.get_running_loop()
    with signal.waiter([job_id]) as waiter, inputs.following(job_id, waiter):
        ended = await has_ended()
        looked_at, pause_s, woken_at = loop.time(), _SOONEST_S, float("-inf")
        if first:
            yield first
            # Who reads slowly keeps the server no more than it must.
            first = b""
        while True:
            # `ended` was learnt before this read, so that nothing written before the end is missed.
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
