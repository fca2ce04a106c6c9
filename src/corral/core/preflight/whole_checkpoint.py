"""Finds the last whole checkpoint in the directories of a job.

A job's user may put anything there at any moment. So nothing is opened but the directories, no link is followed out of
them, and what makes no sense is no checkpoint. Only the time of a name and the kind of an entry are read.
"""

import os
import stat
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from corral.core.model.jobs.checkpoints import LATEST, WholeCheckpoint


class _Named(NamedTuple):
    """The time at which a directory's `latest` was replaced, and the entry that it names; Unix seconds."""

    at: float
    entry: str


def whole_checkpoint(directories: Sequence[str]) -> WholeCheckpoint | None:
    """Return the last checkpoint that is whole in each directory, None if there is none.

    The member of a gang that was last to name one names the gang's. A member that is ahead had named that one before,
    and must still have it.
    """
    with ExitStack() as stack:
        opened: list[int] = []
        named: list[_Named] = []
        for directory in directories:
            try:
                fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                stack.callback(os.close, fd)
                found = _named_in(directory, fd)
            except (OSError, ValueError):
                return None
            if found is None:
                return None
            opened.append(fd)
            named.append(found)
        first = min(named)
        if not all(_is_there(first.entry, fd) for fd in opened):
            return None
        paths = tuple(os.path.join(directory, first.entry) for directory in directories)
        return WholeCheckpoint(paths, max(0.0, time.time() - first.at))


def _named_in(directory: str, fd: int) -> _Named | None:
    """Return what `latest` names, None if it names nothing in the directory. Raises OSError, ValueError."""
    found = os.stat(LATEST, dir_fd=fd, follow_symlinks=False)
    if not stat.S_ISLNK(found.st_mode):
        return _Named(found.st_mtime, LATEST) if _is_there(LATEST, fd) else None
    above, _, entry = os.readlink(LATEST, dir_fd=fd).rstrip("/").rpartition("/")
    here = above in ("", ".") or os.path.realpath(os.path.join(directory, above)) == os.path.realpath(directory)
    return _Named(found.st_mtime, entry) if here and _is_there(entry, fd) else None


def _is_there(entry: str, fd: int) -> bool:
    """Return whether the directory has such an entry of its own: a directory, or a file that is not empty."""
    if entry in ("", ".", ".."):
        return False
    with suppress(OSError, ValueError):
        found = os.stat(entry, dir_fd=fd, follow_symlinks=False)
        return stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size > 0)
    return False
