"""The list of claimed launches: each supervisor adds a line to one file beside all records (`native/records.c`).

If the server is not root's, a job runs as the server's own user and may remove its record, claim included. The list
still shows that it ran, so that it is not run again. Lines are not flushed: they must survive a server, and after a
crash of the machine the claims, which are flushed, suffice.
"""

import errno
import os

from corral.host.runtimes.process.records.whole_files import open_regular, temporary_beside, write_new

_LINES_KEPT = 10_000
"""The number of lines that are kept. The ledger records a running launch long before this many others are claimed."""
_READ_LIMIT_BYTES = 1024 * 1024
_NOT_A_LIST = (errno.EINVAL, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES, errno.EPERM)


def names(path: str) -> list[str]:
    """Return the launches in the last MiB of the list, oldest first; none if there is no list. Raises OSError."""
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
