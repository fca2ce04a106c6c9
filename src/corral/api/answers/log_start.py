"""Finds where in a log to begin, so that the end of a long one is shown without reading all of it."""

from corral.api.answers.logs import Read
from corral.core.control.querying.member_logs import PIECE_BYTES

LOOKED_THROUGH_BYTES = 256 * 1024 * 1024
"""So much of the end of a log is looked through for its last lines. A user can make a log of any size, without a line
in it and without a block on disk, and no request may keep the server reading for hours."""


async def last_lines(read: Read, end: int, lines: int) -> int:
    """The byte at which the last `lines` lines of a log begin, which is `end` bytes long.

    It is read in pieces from its end, at most LOOKED_THROUGH_BYTES. What follows the last newline counts as a line.
    """
    at, left = end, lines
    while at > max(0, end - LOOKED_THROUGH_BYTES) and left > 0:
        start, piece = await _piece_before(read, at)
        # The newline at the very end ends the last line, and begins none.
        stop = len(piece) - 1 if at == end and piece.endswith(b"\n") else len(piece)
        newlines = piece.count(b"\n", 0, stop)
        if newlines >= left:
            for _ in range(left):
                stop = piece.rindex(b"\n", 0, stop)
            return start + stop + 1
        at, left = start, left - newlines
    return at


async def line_of(read: Read, end: int, at: int) -> int:
    """Where the line begins that byte `at` of a log of `end` bytes is in; `at` itself where that is far away."""
    if not 0 < at < end:
        return min(at, end)
    start, piece = await _piece_before(read, at)
    newline = piece.rfind(b"\n")
    return at if newline < 0 and start > 0 else start + newline + 1


async def _piece_before(read: Read, end: int) -> tuple[int, bytes]:
    """A piece of a log that ends at a byte, and where it begins. A log that was cut meanwhile has less, or nothing."""
    start = max(0, end - PIECE_BYTES)
    return start, (await read(start))[: end - start]
