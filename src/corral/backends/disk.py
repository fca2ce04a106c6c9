"""Whether there is room on disk for what a launch writes, found out by writing."""

import errno
import os
import pwd
import time
from collections.abc import Sequence
from pathlib import Path

_ROOM_BYTES = 64 * 1024
"""What a launch takes with an environment of usual size: the launch, its claim and end, and the beginning of a log."""


class Disks:
    """The file systems that these directories are on."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)

    def trouble(self) -> str | None:
        """Why something cannot be written, and what to do; None when all can. One that is gone is no trouble."""
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
