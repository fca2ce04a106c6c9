"""Writes a tree into a directory that nobody else can enter yet."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from corral.core.model.files.tree import Entry, Tree

_OWNER_WORKS_IN_IT = 0o700

Read = Callable[[str], bytes]


def lay_out(tree: Tree, read: Read, top: int, owner: tuple[int, int] | None, wrote: Callable[[int], None]) -> None:
    """Write the entries of a tree below the open directory `top`, and give all to `owner` (uid, gid) unless None.

    `read` returns the content of a digest; `wrote` gets the bytes of each file. Raises OSError, as for two names that
    are the same here, and what `read` raises.
    """
    for entry in tree.entries:
        if entry.link is not None:
            os.symlink(entry.link, entry.path, dir_fd=top)
        elif entry.chunks is None:
            os.mkdir(entry.path, _OWNER_WORKS_IN_IT, dir_fd=top)
            continue
        else:
            _write(entry, entry.chunks, read, top, owner)
            wrote(entry.size_bytes)
            continue
        _own(entry, top, owner)
    # Directories come last: what is written into one changes its time.
    for entry in reversed(tree.entries):
        if entry.chunks is None and entry.link is None:
            os.chmod(entry.path, entry.mode | _OWNER_WORKS_IN_IT, dir_fd=top)
            _own(entry, top, owner)


def _write(entry: Entry, chunks: Sequence[str], read: Read, top: int, owner: tuple[int, int] | None) -> None:
    fd = os.open(entry.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=top)
    try:
        for digest in chunks:
            data = memoryview(read(digest))
            while data:
                data = data[os.write(fd, data) :]
        if owner is not None:
            os.fchown(fd, *owner)
        os.fchmod(fd, entry.mode)
        os.utime(fd, (entry.modified_at, entry.modified_at))
    finally:
        os.close(fd)


def _own(entry: Entry, top: int, owner: tuple[int, int] | None) -> None:
    if owner is not None:
        os.chown(entry.path, *owner, dir_fd=top, follow_symlinks=False)
    with suppress(NotImplementedError):
        times = (entry.modified_at, entry.modified_at)
        os.utime(entry.path, times, dir_fd=top, follow_symlinks=False)
