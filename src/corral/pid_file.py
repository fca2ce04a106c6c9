"""The pid file of a home. Where the server is not root's a job may put anything in its place: nobody waits for that."""

import contextlib
import os
import stat
from pathlib import Path

_MOST_BYTES = 64


def read_pid(path: Path) -> int | None:
    """The pid that stands there, None when there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, _MOST_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        pid = int(text.split()[0])
    except (OSError, ValueError, IndexError):
        return None
    finally:
        os.close(fd)
    return pid if 0 < pid < 1 << 22 else None


def write_pid(path: Path) -> None:
    """Write this process's pid, in the place of whatever is there. Raises OSError, as when that is a directory."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(f"{os.getpid()}\n")
