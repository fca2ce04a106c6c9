"""Removes files that a job may have manipulated: nothing outside of the directory is touched."""

import os
import stat
import time

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove a file, a link or a directory with all that is in it, however deep. Raises OSError."""
    try:
        fd = os.open(path, _DIRECTORY)
    except NotADirectoryError:
        os.unlink(path)
        return
    except PermissionError:
        # The owner has removed its own permission. A link would not have been opened as a directory.
        os.chmod(path, 0o700)
        fd = os.open(path, _DIRECTORY)
    try:
        _empty(fd)
        os.rmdir(path)
    finally:
        os.close(fd)


def _empty(fd: int) -> None:
    """Remove all that is in a directory. The content of a directory within it is moved up first, so paths get no
    deeper.
    """
    within = _remove_files(fd)
    moved = time.monotonic_ns()
    while within:
        name = within.pop()
        below = _opened(fd, name)
        try:
            for deeper in _remove_files(below):
                moved += 1
                # Moving a directory requires write permission for it.
                os.close(_opened(below, deeper))
                os.rename(deeper, f".{moved}", src_dir_fd=below, dst_dir_fd=fd)
                within.append(f".{moved}")
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=fd)


def _remove_files(fd: int) -> list[str]:
    """Remove all files, and return the names of the directories."""
    directories = []
    for name in os.listdir(fd):
        try:
            # Most entries are no directories: a check first would take as long as the removal.
            os.unlink(name, dir_fd=fd)
        except (IsADirectoryError, PermissionError):
            if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                raise
            directories.append(name)
    return directories


def _opened(above: int, name: str) -> int:
    """Return a descriptor of a directory that can be listed, emptied and moved."""
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=above)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=above)
        fd = os.open(name, _DIRECTORY, dir_fd=above)
    if stat.S_IMODE(os.fstat(fd).st_mode) & 0o700 != 0o700:
        os.fchmod(fd, 0o700)
    return fd
