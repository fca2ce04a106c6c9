"""The pid file of a home. Where the server is not root's a job may put anything in its place: nobody waits for that."""

import os
from pathlib import Path

from corral.files import read_start, write_anew

_MOST_BYTES = 64


def read_pid(path: Path) -> int | None:
    """The pid that stands there, None when there is none."""
    try:
        pid = int(read_start(path, _MOST_BYTES, follow=False).split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pid if 0 < pid < 1 << 22 else None


def write_pid(path: Path) -> None:
    """Write this process's pid, in the place of whatever is there. Raises OSError, as when that is a directory."""
    write_anew(path, f"{os.getpid()}\n")
