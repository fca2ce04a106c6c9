"""The times at which parts of a log were written: a file of marks beside it, each a time and the log's length then.

Text after a mark was written after its time, text before it was written before. If the server is not root's, a job may
write to the file. So reads are bounded, and the marks only decide where in the log to begin.
"""

import os

from corral.host.runtimes.process.records.whole_files import open_regular

_MOST = 2048
"""The most marks. The supervisor, which writes the file (`native/log.c`), keeps their number below this."""

_WIDTH = len("1700000000.123 000000000000000\n")
_LATEST, _LARGEST = 1e10, 10**15


def marks_path(log_path: str) -> str:
    """Return the path of a log's marks."""
    return f"{log_path}.times"


def mark_end(log_path: str, at: float, size: int) -> None:
    """Add a mark with this length of the log, from a process that is not the log's writer; nothing if it has no
    marks.
    """
    try:
        fd = open_regular(marks_path(log_path), os.O_WRONLY | os.O_APPEND)
    except OSError:
        return
    try:
        # The time is rounded up: text written a moment later must not count as written before.
        os.write(fd, f"{at + 0.0005:014.3f} {size:015d}\n".encode())
    except OSError:
        return
    finally:
        os.close(fd)


def written_since(log_path: str, at: float) -> int | None:
    """Return the byte of a log from which on it was written at `at` or later, or an earlier byte; None if the log has
    no marks.

    Raises OSError if the marks cannot be read.
    """
    try:
        fd = open_regular(marks_path(log_path), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        data = os.read(fd, _WIDTH * 2 * _MOST)
    finally:
        os.close(fd)
    return max((size for marked_at, size in map(_mark_of, data.split(b"\n")) if marked_at < at), default=0)


def _mark_of(line: bytes) -> tuple[float, int]:
    try:
        at, size = line[:_WIDTH].decode("ascii").split(" ")
        if size.isdecimal() and int(size) <= _LARGEST:
            return float(at), int(size)
    except ValueError:
        pass
    return _LATEST, 0
