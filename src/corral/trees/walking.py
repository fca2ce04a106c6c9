"""Reads a directory into a tree. Nothing is followed out of it, and nothing is waited for.

The directory may change meanwhile, and whoever owns it may mean ill. So each step starts at the descriptor of the last
one, links are not followed, and pipes and devices are not opened.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from corral.core.model.errors import Refused
from corral.core.model.files.tree import (
    CHUNK_BYTES,
    MAX_ENTRIES,
    PERMISSIONS,
    Entry,
    Tree,
    fault_of_link,
    fault_of_path,
)
from corral.core.model.printable import printable
from corral.core.model.units import format_bytes

TRIES = 3
"""The number of times that a file is read if it changes meanwhile."""

MOST_NAMES = 500_000
"""The most names of one directory that are listed: with those that are left out, it may have more than a tree."""

_OTHER = "a fifo, a socket or a device, which has no contents"


class _Changed(Exception):
    """A file changed while it was read."""


@dataclass(slots=True, kw_only=True)
class Walk:
    """The way to read a directory.

    Attributes:
        take: gets each content, and returns its digest.
        most_bytes: the most bytes of all files together.
        leaves_out: whether a path is left out; its second argument says whether it is a directory.
        owner: only files of this user are read, as any user can link to a file of another; None is any.
        faults: the paths that cannot be in a tree, with the reasons. They are not in the tree.
    """

    take: Callable[[bytes], str]
    most_bytes: int
    leaves_out: Callable[[str, bool], bool] = lambda path, is_directory: False
    owner: int | None = None
    faults: list[tuple[str, str]] = field(default_factory=list)
    _entries: list[Entry] = field(default_factory=list)
    _size: int = 0
    _sizes: Counter[str] = field(default_factory=Counter)
    _counts: Counter[str] = field(default_factory=Counter)

    def of(self, top: int) -> Tree:
        """Return the tree of an open directory. Raises Refused if it is too large, OSError if it cannot be read."""
        self._enter(top, "")
        return Tree(tuple(sorted(self._entries, key=lambda entry: entry.path.split("/"))))

    def _enter(self, above: int, path: str) -> None:
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)
        try:
            for name in _names_in(listed, path):
                self._look(listed, name, f"{path}/{name}" if path else name)
        finally:
            os.close(listed)

    def _look(self, above: int, name: str, path: str) -> None:
        try:
            found = os.stat(name, dir_fd=above, follow_symlinks=False)
        except FileNotFoundError:
            # It was removed since the directory was listed.
            return
        if self.leaves_out(path, stat.S_ISDIR(found.st_mode)):
            return
        fault = fault_of_path(path)
        if fault is not None:
            self._leave_out(path, fault)
            return
        try:
            if stat.S_ISDIR(found.st_mode):
                with _opened(above, name, os.O_DIRECTORY) as fd:
                    self._add(Entry(path, stat.S_IMODE(found.st_mode) & PERMISSIONS, int(found.st_mtime)))
                    self._enter(fd, path)
            elif stat.S_ISLNK(found.st_mode):
                self._link(path, os.readlink(name, dir_fd=above), int(found.st_mtime))
            elif stat.S_ISREG(found.st_mode):
                self._add(self._file(above, name, path))
            else:
                self._leave_out(path, _OTHER)
        except _Changed:
            self._leave_out(path, "it changes while it is read; wait until nothing writes to it")
        except OSError as error:
            self._leave_out(path, f"it cannot be read: {error.strerror}")

    def _link(self, path: str, target: str, modified_at: int) -> None:
        fault = fault_of_link(path, target)
        if fault is None:
            self._add(Entry(path, modified_at=modified_at, link=target))
        else:
            self._leave_out(path, fault)

    def _file(self, above: int, name: str, path: str) -> Entry:
        for _ in range(TRIES):
            with _opened(above, name) as fd:
                before = os.fstat(fd)
                if not stat.S_ISREG(before.st_mode):
                    raise _Changed
                if self.owner is not None and before.st_uid != self.owner:
                    raise PermissionError(0, f"it belongs to user {before.st_uid}")
                self._refuse_too_much(path, before.st_size)
                # A file that grows without end is read no further than it was.
                chunks = tuple(map(self.take, islice(pieces(fd), before.st_size // CHUNK_BYTES + 1)))
                after = os.fstat(fd)
            size = sum_of(chunks, before.st_size)
            if (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns) and size is not None:
                self._size += size
                self._sizes[_top(path)] += size
                return Entry(path, stat.S_IMODE(before.st_mode) & PERMISSIONS, int(before.st_mtime), size, chunks)
        raise _Changed

    def _refuse_too_much(self, path: str, size: int) -> None:
        if self._size + size > self.most_bytes:
            self._sizes[_top(path)] += size
            raise Refused(
                f"the directory has more than {format_bytes(self.most_bytes)}, the limit for one; most of it is in "
                f"{_most(self._sizes)}; leave out what the job does not need"
            )

    def _leave_out(self, path: str, why: str) -> None:
        self.faults.append((path, why))
        self._count(path)

    def _add(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._count(entry.path)

    def _count(self, path: str) -> None:
        self._counts[_top(path)] += 1
        if len(self._entries) + len(self.faults) > MAX_ENTRIES:
            raise Refused(
                f"the directory has more than {MAX_ENTRIES} files and directories, the limit for one; most of them are "
                f"in {_most(self._counts)}; leave out what the job does not need, or pack it into an archive"
            )


def _names_in(directory: int, path: str) -> list[str]:
    """Return the names in an open directory, sorted. Raises Refused if there are too many to be listed."""
    with os.scandir(directory) as found:
        names = [entry.name for entry in islice(found, MOST_NAMES + 1)]
    if len(names) > MOST_NAMES:
        raise Refused(f"{printable(path)[:200] or 'the directory'} has more than {MOST_NAMES} files, the limit for one")
    return sorted(names)


def pieces(fd: int) -> Iterator[bytes]:
    """The contents of an open file, of CHUNK_BYTES each but the last."""
    while piece := _full(fd):
        yield piece
        if len(piece) < CHUNK_BYTES:
            return


def _full(fd: int) -> bytes:
    piece = os.read(fd, CHUNK_BYTES)
    while piece and len(piece) < CHUNK_BYTES and (more := os.read(fd, CHUNK_BYTES - len(piece))):
        piece += more
    return piece


def sum_of(chunks: tuple[str, ...], size: int) -> int | None:
    """The size of a file with this many contents; None if it cannot be `size`."""
    return size if len(chunks) == -(-size // CHUNK_BYTES) else None


@contextmanager
def _opened(above: int, name: str, kind: int = os.O_NONBLOCK) -> Iterator[int]:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind, dir_fd=above)
    try:
        yield fd
    finally:
        os.close(fd)


def _top(path: str) -> str:
    first, slash, _ = path.partition("/")
    return first + slash


def _most(counted: Counter[str]) -> str:
    return counted.most_common(1)[0][0]
