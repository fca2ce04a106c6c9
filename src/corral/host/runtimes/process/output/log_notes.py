"""Lines of Corral's own in a job's log, which the supervisor writes (`native/log.c`)."""

import os
from collections.abc import Iterable

from corral.core.model.printable import printable
from corral.host.runtimes.process.records.whole_files import open_regular


def append_note(path: str, line: str) -> int | None:
    """Write a line of Corral's own to the end of a job's log, from a process that is not the log's writer.

    Return the new length of the log; None, without writing, if there is no log. Raises OSError if it cannot be written,
    as when the job has put a fifo in its place.
    """
    try:
        fd = open_regular(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        return None
    try:
        os.write(fd, _on_a_new_line(fd) + _note(line))
        return os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)


def _on_a_new_line(fd: int) -> bytes:
    """Return the newline that must precede a line of Corral's own if the log's last line is not complete."""
    size = os.lseek(fd, 0, os.SEEK_END)
    return b"\n" if size and os.pread(fd, 1, size - 1) != b"\n" else b""


def append_lines(path: str, lines: Iterable[str], owner: tuple[int, int] | None) -> int:
    """Write lines of Corral's own as `append_note` does, to a log that is made for `owner` if it is missing."""
    fd = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        if owner is not None and os.fstat(fd).st_size == 0:
            os.fchown(fd, *owner)
        os.write(fd, _on_a_new_line(fd) + b"".join(map(_note, lines)))
        return os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)


def _note(line: str) -> bytes:
    # Some of it may be a job's own words, which could pass for another line of Corral's or command a terminal.
    return f"corral: {printable(line)}\n".encode(errors="backslashreplace")
