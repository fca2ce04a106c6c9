"""Files that others may change at any moment: regular ones only, read up to a bound, never waiting for a pipe."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

MOST_NAMES = 20_000
"""A directory with more entries is none that packages or models lie in."""


def read_start(path: Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """The first bytes of a file, all of them where it has no more.

    Raises OSError, also for what is no regular file, and without `follow` for a symbolic link.
    """
    return b"".join(chunks(path, most_bytes, most_bytes, follow=follow))


def read_whole(path: Path, most_bytes: int) -> bytes:
    """All of a file. Raises OSError, also for what is no regular file, and for one that is larger."""
    content = read_start(path, most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes", str(path))
    return content


def chunks(path: Path, most_bytes: int, chunk_bytes: int, *, follow: bool = True) -> Iterator[bytes]:
    """The first bytes of a file, in pieces of at most `chunk_bytes`. Raises as `read_start`."""
    with _opened(path, 0 if follow else os.O_NOFOLLOW) as fd:
        left = most_bytes
        while left and (chunk := os.read(fd, min(left, chunk_bytes))):
            yield chunk
            left -= len(chunk)


def read_own_end(path: Path, most_bytes: int) -> bytes:
    """The last bytes of a file of this process's user, in a directory that others may write to.

    Raises OSError, also for a symbolic link, what is no regular file, and another's file.
    """
    with _opened(path, os.O_NOFOLLOW) as fd:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it is another user's", str(path))
        return os.pread(fd, most_bytes, max(0, found.st_size - most_bytes))


def write_anew(path: Path, text: str) -> None:
    """Write a file for this user alone, in the place of whatever is there. Raises OSError, as for a directory."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)


@contextlib.contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[int]:
    # To open some devices is to do something with them, so it is looked before and, as it may change, after.
    _must_be_regular(os.stat(path, follow_symlinks=not flags & os.O_NOFOLLOW), path)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | flags)
    try:
        _must_be_regular(os.fstat(fd), path)
        yield fd
    finally:
        os.close(fd)


def _must_be_regular(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def names_in(directory: Path, pattern: str = "*") -> list[str]:
    """The names in a directory that match, sorted; [] where it cannot be read, or has more than `MOST_NAMES`."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES + 1)]
    except (OSError, ValueError):
        return []
    if len(names) > MOST_NAMES:
        return []
    return sorted(name for name in names if fnmatchcase(name, pattern))
