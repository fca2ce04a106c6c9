"""Reads files that other users may change at any time: only regular files, up to a size, and never blocking.

Writes files of its own so that no reader sees half of one.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

MOST_NAMES = 20_000
"""Directories with more entries are not read. The directories of packages and models have fewer."""


def read_start(path: Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """The first bytes of a file, or all of it if it is shorter.

    Raises OSError, also if it is not a regular file, or is a symbolic link and `follow` is False.
    """
    return b"".join(chunks(path, most_bytes, most_bytes, follow=follow))


def read_whole(path: Path, most_bytes: int) -> bytes:
    """The whole file. Raises OSError, also if it is not a regular file, or is larger than the limit."""
    content = read_start(path, most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes", str(path))
    return content


def chunks(path: Path, most_bytes: int, chunk_bytes: int, *, follow: bool = True) -> Iterator[bytes]:
    """The first bytes of a file, in pieces of at most `chunk_bytes`. Raises like `read_start`."""
    with _opened(path, 0 if follow else os.O_NOFOLLOW) as fd:
        left = most_bytes
        while left and (chunk := os.read(fd, min(left, chunk_bytes))):
            yield chunk
            left -= len(chunk)


def read_own_end(path: Path, most_bytes: int) -> bytes:
    """The last bytes of a file of this process's user, in a directory that others may write to.

    Raises OSError, also for a symbolic link, for anything but a regular file, and for a file of another user.
    """
    with _opened(path, os.O_NOFOLLOW) as fd:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it is another user's", str(path))
        return os.pread(fd, most_bytes, max(0, found.st_size - most_bytes))


def write_anew(path: Path, text: str, *, flush: bool = False) -> None:
    """Write a file that only this user can read, replacing an existing file. Raises OSError, also for a directory.

    With `flush` it is on the disk then.
    """
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
        if flush:
            file.flush()
            os.fsync(fd)


def write_whole(path: Path, text: str) -> None:
    """Write a file that only this user can read, in one step: the old text is there, or the new one. Raises OSError.

    One process writes it at a time.
    """
    draft = path.with_name(f"{path.name}.new")
    write_anew(draft, text, flush=True)
    os.replace(draft, path)


def made_once(path: Path, text: str) -> str:
    """The text of a file, which is made with this `text` if it is missing. The first of several makers wins.

    Raises OSError, and ValueError if it is no text.
    """
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        write_anew(draft, text, flush=True)
        try:
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink()
    return path.read_text()


@contextlib.contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[int]:
    # Opening some devices has effects: the type is checked before. It is checked again after, as it may have changed.
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
    """The matching names in a directory, sorted; [] if it cannot be read, or has more than `MOST_NAMES`."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES + 1)]
    except (OSError, ValueError):
        return []
    if len(names) > MOST_NAMES:
        return []
    return sorted(name for name in names if fnmatchcase(name, pattern))
