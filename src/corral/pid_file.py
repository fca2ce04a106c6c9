"""Which process serves a home: its lock and its pid file.

Where the server is not root's a job may put anything in the file's place: nobody waits for that.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from corral.files import read_start, write_anew
from corral.model.errors import Conflict
from corral.model.home import Home

_MOST_BYTES = 64
_TRY_AGAIN_S = 0.05


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


def make_home(root: Path) -> None:
    """Make the directory of a home, unless it is there. Users reach their jobs' files in one of root's."""
    try:
        root.mkdir(parents=True)
    except FileExistsError:
        return
    # Whatever this process's umask left of the mode.
    root.chmod(_mode())


@contextlib.contextmanager
def only_process_of(home: Home, *, patience_s: float = 0.0) -> Iterator[None]:
    """Hold the home's lock, keep its pid file, and have the directories of its jobs.

    Raises Conflict when another server or agent has it for longer than `patience_s`.
    """
    make_home(home.root)
    deadline = time.monotonic() + patience_s
    with home.lock_file.open("a+") as lock:
        while not _locked(lock.fileno()):
            if time.monotonic() >= deadline:
                pid = read_pid(home.pid_file)
                holder = "another process" if pid is None else f"process {pid}"
                raise Conflict(
                    f"{holder} already serves {home.root}; use it, stop it (a server with `corral down`), "
                    "or set CORRAL_HOME to another directory"
                )
            time.sleep(_TRY_AGAIN_S)
        write_pid(home.pid_file)
        for directory in (home.logs, home.scratch):
            directory.mkdir(exist_ok=True)
            directory.chmod(_mode())
        try:
            yield
        finally:
            home.pid_file.unlink(missing_ok=True)


def _mode() -> int:
    return 0o755 if os.geteuid() == 0 else 0o700


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
