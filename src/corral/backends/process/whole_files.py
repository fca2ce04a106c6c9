"""Files that appear whole, or count as absent while they do not parse."""

import os
import time
from typing import Any

from .orders import decode
from .procfs import read_file


def temporary_beside(path: str) -> str:
    """A name for what will become `path`, that no other writer of it uses."""
    return f"{path}.{os.getpid()}.{time.monotonic_ns()}"


def write_all(fd: int, data: bytes) -> None:
    """Write every byte. Raises OSError: a disk that fills up takes a part without a word, and refuses the next."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def write_new(path: str, data: bytes) -> None:
    """Write a file, not flushed."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)


def read_json(path: str, line: int = 0) -> dict[str, Any] | None:
    """The object in a line of a file; None when it is not there, or was torn by a crash of the machine."""
    try:
        data = decode(read_file(path).split(b"\n")[line].decode())
    except (FileNotFoundError, NotADirectoryError, ValueError, IndexError):
        return None
    return data if isinstance(data, dict) else None


def sync_directory(path: str) -> None:
    """Have the names in a directory on disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
