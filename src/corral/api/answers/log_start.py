"""Find the byte of a log at which to begin, to show the end of a long log without reading all of it."""

from corral.api.answers.logs import Read
from corral.core.control.querying.member_logs import PIECE_BYTES

LOOKED_THROUGH_BYTES = 256 * 1024 * 1024
"""The last lines of a log are looked for in this many bytes at its end. A user can make a log of any size, without a
line break and without a block on disk. No request may keep the server reading for hours.
"""


async def last_lines(read: Read, end: int, lines: int) -> int:
    """The byte at which the last `lines` lines of a log begin. `end` is the length of the log in bytes.

    The log is read in pieces from its end, at most LOOKED_THROUGH_BYTES. Text after the last newline counts as a line.
    """
    at, left = end, lines
    while at > max(0, end - LOOKED_THROUGH_BYTES) and left > 0:
        start, piece = await _piece_before(read, at)
        # A newline at the very end of the log ends the last line, and begins none.
        stop = len(piece) - 1 if at == end and piece.endswith(b"\n") else len(piece)
        newlines = piece.count(b"\n", 0, stop)
        if newlines >= left:
            for _ in range(left):
                stop = piece.rindex(b"\n", 0, stop)
            return start + stop + 1
        at, left = start, left - newlines
    return at


async def line_of(read: Read, end: int, at: int) -> int:
    """The byte at which the line of byte `at` begins, in a log of `end` bytes; `at` itself if it begins far away."""
    if not 0 < at < end:
        return min(at, end)
    start, piece = await _piece_before(read, at)
    newline = piece.rfind(b"\n")
    return at if newline < 0 and start > 0 else start + newline + 1


async def _piece_before(read: Read, end: int) -> tuple[int, bytes]:
    """A piece of a log that ends at byte `end`, and its first byte. It is shorter, or empty, if the log was cut."""
    start = max(0, end - PIECE_BYTES)
    return start, (await read(start))[: end - start]
