"""Finds out by writing whether the disk has room for the files of a launch."""

import errno
import os
import pwd
import time
from collections.abc import Sequence
from pathlib import Path

_ROOM_BYTES = 64 * 1024
"""The bytes that a launch with a usual environment writes: the launch, its claim and end, and the beginning of
a log.
"""


_AMPLE_BYTES = 64 * 1024 * 1024
_AMPLE_FILES = 1000
_TRIED_FOR_S = 1.0
"""The interval of writing tests although there is ample free space: a quota is not visible in the amount of
free space.
"""


class Disks:
    """The file systems of some directories. For one thread."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        self._well_until = float("-inf")

    def trouble(self) -> str | None:
        """Return why a directory cannot be written and what to do; None if all can be written. A missing directory is
        ignored.

        A successful test is valid for a moment while there is ample free space, because a test takes a millisecond.
        """
        now = time.monotonic()
        if now < self._well_until and all(map(_has_ample_room, self._directories)):
            return None
        found = self._try_all()
        self._well_until = now + _TRIED_FOR_S if found is None else float("-inf")
        return found

    def _try_all(self) -> str | None:
        tried: dict[int, None] = {}
        for directory in self._directories:
            try:
                device = os.stat(directory).st_dev
                if device not in tried:
                    tried[device] = None
                    _try_writing(f"{directory}/.room-{os.getpid()}-{time.monotonic_ns()}")
            except FileNotFoundError:
                continue
            except OSError as error:
                return explained(directory, error)
        return None


def _has_ample_room(directory: Path) -> bool:
    try:
        status = os.statvfs(directory)
    except OSError:
        return False
    free_bytes = status.f_bavail * status.f_frsize
    # A file system without a fixed number of files reports 0 free of 0.
    files = status.f_files == 0 or status.f_favail > _AMPLE_FILES
    return free_bytes > _AMPLE_BYTES and files and not status.f_flag & os.ST_RDONLY


def _try_writing(path: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        left = _ROOM_BYTES
        while left:
            left -= os.write(fd, bytes(left))
    finally:
        os.close(fd)
        os.unlink(path)


def is_full(error: OSError) -> bool:
    """Return whether the file system accepts no more data for any file."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def explained(directory: Path, error: OSError) -> str:
    """Return what is wrong with the file system of a directory and how to correct it, for a person."""
    match error.errno:
        case errno.ENOSPC if _out_of_inodes(directory):
            return f"the disk that {directory} is on has no inodes left; remove files there, many small ones best"
        case errno.ENOSPC:
            return f"the disk that {directory} is on is full; free some space there"
        case errno.EDQUOT:
            return f"the disk quota of {_own_name()} is used up where {directory} is; free some there, or raise it"
        case errno.EROFS:
            return f"{directory} is on a read-only file system; find out why (dmesg), and mount it for writing again"
    return f"{directory} cannot be written: {error.strerror}"


def _out_of_inodes(directory: Path) -> bool:
    status = os.statvfs(directory)
    return status.f_files > 0 and status.f_favail == 0


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user id {os.geteuid()}"
