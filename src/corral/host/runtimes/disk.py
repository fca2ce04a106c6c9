"""Whether there is room on disk for what a launch writes, found out by writing."""

import errno
import os
import pwd
import time
from collections.abc import Sequence
from pathlib import Path

_ROOM_BYTES = 64 * 1024
"""What a launch takes with an environment of usual size: the launch, its claim and end, and the beginning of a log."""


_AMPLE_BYTES = 64 * 1024 * 1024
_AMPLE_FILES = 1000
_TRIED_FOR_S = 1.0
"""A quota shows in no figure, so even where there is ample room it is tried so often."""


class Disks:
    """The file systems that these directories are on. For one thread."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        self._well_until = float("-inf")

    def trouble(self) -> str | None:
        """Why something cannot be written, and what to do; None when all can. One that is gone is no trouble.

        Where it could be a moment ago and there is ample room, it is not tried again: that takes a millisecond.
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
    # A file system without a fixed number of files tells 0 of 0.
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
    """Whether it is the file system that takes no more, whatever the file."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def explained(directory: Path, error: OSError) -> str:
    """What is wrong with the file system of a directory, for a person who can do something about it."""
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
