"""Copies a container's output once and in order, although the daemon may be restarted meanwhile.

Docker frames each piece of output with its stream, and puts the time before it. When the output is read again from a
time on, copied pieces are recognized by their time and by the number of pieces of that time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_HEADER_BYTES = 8
_STDERR = 2
_OF_THE_DAEMON = 3
"""The stream for the daemon's own errors: it could not read on, as with much output and rotating files."""


@dataclass(slots=True)
class Position:
    """The position in one stream: the time of the last copied piece, and the number of copied pieces of that time."""

    stamp: bytes = b""
    pieces: int = 0


class OutputCopy:
    """The position in both streams of one container."""

    def __init__(self) -> None:
        self._positions = {False: Position(), True: Position()}

    @property
    def since(self) -> str:
        """Return the time from which to read again, in Unix seconds; "" is the beginning."""
        stamps = [one.stamp for one in self._positions.values() if one.stamp]
        # Each stream is ordered by time, and both together nearly are.
        return str(_unix_seconds(min(stamps)) - 1) if stamps else ""

    def new(self, blocks: Iterable[bytes]) -> Iterator[tuple[bool, bytes]]:
        """Yield the pieces of output that were not copied yet, each with whether it is of standard error.

        `blocks` are Docker's output with times, from a moment at or before `since` on. A piece counts as copied when
        the next is requested.
        """
        skipping = {is_error: Position(one.stamp, one.pieces) for is_error, one in self._positions.items()}
        seen = {False: 0, True: 0}
        for is_error, payload in _frames(blocks):
            stamp, _, data = payload.partition(b" ")
            before = skipping[is_error]
            if before.stamp:
                seen[is_error] += stamp == before.stamp
                if stamp < before.stamp or (stamp == before.stamp and seen[is_error] <= before.pieces):
                    continue
                skipping[is_error] = Position()
            yield is_error, data
            position = self._positions[is_error]
            position.pieces = position.pieces + 1 if stamp == position.stamp else 1
            position.stamp = stamp


def _frames(blocks: Iterable[bytes]) -> Iterator[tuple[bool, bytes]]:
    """Yield whether each frame is of standard error, and its content. Cut-off frames and the daemon's own are left
    out.
    """
    rest = bytearray()
    for block in blocks:
        rest += block
        start = 0
        while len(rest) >= start + _HEADER_BYTES:
            end = start + _HEADER_BYTES + int.from_bytes(rest[start + 4 : start + _HEADER_BYTES], "big")
            if len(rest) < end:
                break
            if rest[start] != _OF_THE_DAEMON:
                yield rest[start] == _STDERR, bytes(rest[start + _HEADER_BYTES : end])
            start = end
        del rest[:start]


def _unix_seconds(stamp: bytes) -> int:
    """Return a time as Docker writes it, such as 2026-11-22T19:26:21.005444590Z, rounded down to its second."""
    return int(datetime.fromisoformat(stamp[:19].decode()).replace(tzinfo=UTC).timestamp())
