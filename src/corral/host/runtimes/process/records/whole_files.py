"""Files that appear whole, or count as absent while they do not parse.

If the server is not root's, its jobs can write the files, too. So a read never waits, never follows a link, and takes
no more bytes than the file can have.
"""

import errno
import os
import stat
import time
from collections.abc import Callable
from typing import Any, TypeVar

from corral.host.runtimes.process.supervisor_orders import decode

T = TypeVar("T")

RECORD_LIMIT_BYTES = 64 * 1024
TIME_LIMIT = 1e11
"""The upper bound of times in a record: Unix seconds of the year 5138."""

_READ_BYTES = 65536
# Errors of the machine; any other error shows what was made of the file.
_MACHINES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE)


class Unreadable(ValueError):
    """The file is not a valid record. The message begins with its path and states the fault."""


def temporary_beside(path: str) -> str:
    """Return a name for the file that will become `path`, which no other writer of it uses."""
    return f"{path}.{os.getpid()}.{time.monotonic_ns()}"


def open_regular(path: str, flags: int) -> int:
    """Return a descriptor of the file. Raises OSError, also if it is not a regular file."""
    # The file is opened without waiting, because the other end of a fifo may never be opened.
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "it is not a regular file", path)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte. Raises OSError.

    A full disk may accept a part of the bytes without an error, and refuse only the next write.
    """
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def write_new(path: str, data: bytes) -> None:
    """Write a new file without flushing it to disk."""
    fd = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)


def read_record(path: str, limit_bytes: int = RECORD_LIMIT_BYTES) -> bytes | None:
    """Return all of a record, or None if it is missing. Raises Unreadable, and OSError if the machine fails."""
    try:
        fd = open_regular(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in _MACHINES:
            raise
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from error
    try:
        return _read_to_end(fd, path, limit_bytes)
    finally:
        os.close(fd)


def _read_to_end(fd: int, path: str, limit_bytes: int) -> bytes:
    data = os.read(fd, _READ_BYTES)
    if len(data) < _READ_BYTES:
        return data
    portions, size = [data], len(data)
    while size <= limit_bytes and (data := os.read(fd, _READ_BYTES)):
        portions.append(data)
        size += len(data)
    if size > limit_bytes:
        raise Unreadable(f"{path} is larger than {limit_bytes} bytes, which no such record is")
    return b"".join(portions)


def decode_record(path: str, line: bytes, make: Callable[[Any], T]) -> T:
    """Return `make` of the JSON in a line. Raises Unreadable for any error: a job may have written the line."""
    try:
        return make(decode(line.decode()))
    except Exception as error:
        # Unlike `untrusted.guarded`, this writes no line in the log: a record that is just being written is normal.
        raise Unreadable(f"{path} makes no sense") from error


def a_moment(value: Any) -> float:
    """Return a time of a record, in Unix seconds. Raises ValueError if it is invalid."""
    if type(value) in (int, float) and 0 <= value < TIME_LIMIT:
        return float(value)
    raise ValueError("no moment")


def a_count(value: Any, least: int, most: int) -> int:
    """Return a whole number of a record. Raises ValueError if it is invalid."""
    if type(value) is int and least <= value <= most:
        return value
    raise ValueError("no such number")


def a_text(value: Any, longest: int) -> str:
    """Return a text of a record, cut if it is too long. Raises ValueError."""
    if type(value) is str:
        return value[:longest]
    raise ValueError("no text")


def a_flag(value: Any) -> bool:
    """Return a boolean of a record. Raises ValueError for other values."""
    if type(value) is bool:
        return value
    raise ValueError("neither true nor false")


def sync_directory(path: str) -> None:
    """Flush the names in a directory to disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
