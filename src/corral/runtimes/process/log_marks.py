"""When what of a log was written: a file of marks beside it, each a moment and how long the log was at that moment.

So what comes after a mark was written after its moment, and what is before it before. A job may write to the file where
the server is not root's: what is read of it is bounded, and only says where in the log to begin.
"""

import os
import time
from collections.abc import Callable

from .whole_files import open_regular, write_all

SPACING_S = 5.0
"""The least time between two marks."""

MOST = 2048
"""With so many marks, every second one is dropped, and the spacing is doubled."""

_WIDTH = len("1700000000.123 000000000000000\n")
_LATEST, _LARGEST = 1e10, 10**15


def marks_path(log_path: str) -> str:
    """Where the marks of a log are."""
    return f"{log_path}.times"


class LogMarks:
    """Writes the marks of one log, for whoever writes the log. Moments are seconds of `clock`, from `boot_at` on.

    Attributes:
        pending: whether something was written after the last mark.

    A job that ends within seconds has no file. What cannot be written is left out: who asks then gets more of the log
    than was meant, and never less.
    """

    __slots__ = ("_at", "_boot_at", "_clock", "_count", "_end", "_marked_at", "_path", "_spacing_s", "pending")

    def __init__(
        self, log_path: str, size: int, boot_at: float | None, clock: Callable[[int], float] = time.clock_gettime
    ) -> None:
        """The log is `size` bytes long; what is there already was written by an attempt before.

        `boot_at` is when this boot began, in the server's Unix seconds, None where it goes by the wall clock.
        """
        self._path = marks_path(log_path)
        self._clock = clock
        self._boot_at = time.time() - clock(time.CLOCK_BOOTTIME) if boot_at is None else boot_at
        self._at = self._marked_at = clock(time.CLOCK_BOOTTIME)
        self._end = size
        self.pending = False
        self._spacing_s = SPACING_S
        self._count = _count(self._path)
        if size:
            self._mark()

    def wrote(self, end: int) -> None:
        """The log has just been written to, and is so long now."""
        # Called for each portion of the output, so that it takes as little as it can.
        self._at = self._clock(time.CLOCK_BOOTTIME)
        self._end = end
        if self._at - self._marked_at >= self._spacing_s:
            self._mark()
        else:
            self.pending = True

    def rest(self) -> None:
        """Nothing was written for `SPACING_S`: mark the end of what was written last."""
        if self.pending:
            self._mark()

    def close(self) -> None:
        """Nothing more is written: mark the end, if the log has marks at all."""
        if self.pending and self._count:
            self._mark()

    def _mark(self) -> None:
        self.pending = False
        self._marked_at = self._clock(time.CLOCK_BOOTTIME)
        try:
            if self._count >= MOST:
                self._thin_out()
            _append(self._path, self._boot_at + self._at, self._end, os.O_CREAT)
            self._count += 1
        except OSError:
            return

    def _thin_out(self) -> None:
        fd = open_regular(self._path, os.O_RDONLY)
        try:
            data = os.read(fd, _WIDTH * 2 * MOST)
        finally:
            os.close(fd)
        marks = [data[start : start + _WIDTH] for start in range(0, len(data), _WIDTH)]
        kept = marks[1::2]
        draft = f"{self._path}.new"
        fd = open_regular(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_all(fd, b"".join(kept))
        finally:
            os.close(fd)
        os.rename(draft, self._path)
        self._count = len(kept)
        self._spacing_s *= 2


def mark_end(log_path: str, at: float, size: int) -> None:
    """Mark that a log is so long, from another process than the one that writes it; nothing where it has no marks."""
    try:
        _append(marks_path(log_path), at, size, 0)
    except OSError:
        return


def written_since(log_path: str, at: float) -> int | None:
    """The byte of a log from which on it was written at `at` or later, or a little earlier; None where it has no marks.

    Raises OSError when the machine does not let them be read.
    """
    try:
        fd = open_regular(marks_path(log_path), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        data = os.read(fd, _WIDTH * 2 * MOST)
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


def _append(path: str, at: float, size: int, create: int) -> None:
    fd = open_regular(path, os.O_WRONLY | os.O_APPEND | create)
    try:
        # Rounded up: what was written a moment later must not count as written before.
        os.write(fd, f"{at + 0.0005:014.3f} {size:015d}\n".encode())
    finally:
        os.close(fd)


def _count(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size // _WIDTH
    except OSError:
        return 0
