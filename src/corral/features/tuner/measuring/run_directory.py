"""A temporary directory for one run of genai-bench, which is removed even if the tuner was killed.

genai-bench writes the key of the server to its logs. So no other user may read them, and they must be removed.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "corral-genai-bench-"
_YOUNG_S = 60.0
"""A younger directory may not have been locked yet."""


@contextmanager
def private_directory() -> Iterator[Path]:
    """Create an empty directory, locked while it is used. Unused directories of earlier runs are removed first."""
    _remove_left_over(Path(tempfile.gettempdir()))
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _remove_left_over(place: Path) -> None:
    for path in place.glob(f"{_PREFIX}*"):
        try:
            about = path.lstat()
            if about.st_uid != os.geteuid() or time.time() - about.st_mtime < _YOUNG_S:
                continue
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            pass  # it is in use
        finally:
            os.close(lock)
