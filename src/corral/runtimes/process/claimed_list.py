"""The list of claimed launches: a line for each that a supervisor claimed, in one file beside all their records.

Where the server is not root's a job runs as the server's own user, and may remove its record, claim and all. What
stands here still says that it ran, so that it is not run again. Lines are not flushed: they have to outlive a server,
and after a crash of the machine the claims, which are flushed, are enough.
"""

import errno
import os

from .whole_files import open_regular, temporary_beside, write_all, write_new

_LINES_KEPT = 10_000
"""Far more than can be claimed before the ledger, too, says of the first of them that it runs."""
_READ_LIMIT_BYTES = 1024 * 1024
_NOT_A_LIST = (errno.EINVAL, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES, errno.EPERM)


def enter(path: str, name: str) -> None:
    """Add a launch. Raises OSError."""
    fd = _open_for_all(path)
    try:
        # A line of its own, also after what a job may have left there.
        write_all(fd, f"\n{name}\n".encode())
    finally:
        os.close(fd)


def _open_for_all(path: str) -> int:
    """Open the list of claimed launches; what a job put in its place is moved aside, for every other job needs it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        return open_regular(path, flags)
    except OSError as error:
        if error.errno not in _NOT_A_LIST:
            raise
    os.rename(path, temporary_beside(path))
    return open_regular(path, flags)


def names(path: str) -> list[str]:
    """The launches on the list, oldest first, as far as its last MiB tells; none when there is none. Raises OSError."""
    try:
        fd = open_regular(path, os.O_RDONLY)
    except OSError as error:
        if isinstance(error, FileNotFoundError) or error.errno in _NOT_A_LIST:
            return []
        raise
    try:
        skipped = max(0, os.fstat(fd).st_size - _READ_LIMIT_BYTES)
        data = os.pread(fd, _READ_LIMIT_BYTES, skipped)
    finally:
        os.close(fd)
    # The first line may have begun before.
    return (data.partition(b"\n")[2] if skipped else data).decode(errors="replace").split()


def shorten(path: str) -> None:
    """Drop the oldest lines of a long list. Raises OSError."""
    known = names(path)
    if len(known) > _LINES_KEPT:
        shorter = temporary_beside(path)
        write_new(shorter, "".join(f"{name}\n" for name in known[-_LINES_KEPT:]).encode())
        os.rename(shorter, path)
