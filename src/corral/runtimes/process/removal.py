"""Removing what a job may have had its hands on: whatever is there now, nothing outside of it is touched."""

import os
import shutil


def remove_tree(path: str) -> None:
    """Remove a file, a link or a directory with all that is in it. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        os.unlink(path)
        return
    except PermissionError:
        # Its owner took the right from itself; a link would have been no directory.
        os.chmod(path, 0o700)
        shutil.rmtree(path)
        return
    try:
        # By hand: a directory without directories is removed in half the time of rmtree.
        for name in os.listdir(fd):
            os.unlink(name, dir_fd=fd)
        os.rmdir(path)
    except (IsADirectoryError, PermissionError):
        shutil.rmtree(path)
    finally:
        os.close(fd)
