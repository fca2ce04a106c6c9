"""The process that serves a home: its lock and its pid file.

If the server is not root's, a job may replace the file by anything: reading it therefore never blocks.
"""

import contextlib
import fcntl
import logging
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from corral.core.model.errors import Conflict
from corral.core.model.home import Home
from corral.files import read_start, write_anew

log = logging.getLogger(__name__)

_MOST_BYTES = 64
_TRY_AGAIN_S = 0.05
_KILL_S = 2.0
"""A killed process has ended after this time, unless it hangs in the kernel."""


def read_pid(path: Path) -> int | None:
    """The pid in the file; None if there is none."""
    try:
        pid = int(read_start(path, _MOST_BYTES, follow=False).split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pid if 0 < pid < 1 << 22 else None


def write_pid(path: Path) -> None:
    """Write this process's pid, replacing the file. Raises OSError, for example if it is a directory."""
    write_anew(path, f"{os.getpid()}\n")


def make_home(root: Path) -> None:
    """Create the directory of a home, unless it exists. In a home of root, users can reach the files of their jobs."""
    try:
        root.mkdir(parents=True)
    except FileExistsError:
        return
    # This process's umask may have removed bits of the mode.
    root.chmod(_mode())


def make_job_directories(home: Home) -> None:
    """Create the directories of the jobs, if they are missing. Raises OSError."""
    for directory in (home.logs, home.scratch):
        directory.mkdir(exist_ok=True)
        directory.chmod(_mode())


@contextlib.contextmanager
def only_process_of(home: Home, *, patience_s: float = 0.0, by_force: bool = False) -> Iterator[None]:
    """Hold the home's lock, keep its pid file, and create the directories of its jobs.

    With `by_force`, a process that holds the lock for longer than `patience_s` is killed. This is for callers who know
    that it should have ended by then and hangs. Raises Conflict if another server or agent keeps the lock.
    """
    make_home(home.root)
    with home.lock_file.open("a+") as lock:
        if not _locked_within(lock.fileno(), patience_s):
            pid = read_pid(home.pid_file)
            killed = by_force and pid is not None and _kill_holder(pid, lock.fileno())
            if not killed or not _locked_within(lock.fileno(), _KILL_S):
                holder = "another process" if pid is None else f"process {pid}"
                raise Conflict(
                    f"{holder} already serves {home.root}; use it, stop it (a server with `corral down`), "
                    "or set CORRAL_HOME to another directory"
                )
        write_pid(home.pid_file)
        make_job_directories(home)
        try:
            yield
        finally:
            home.pid_file.unlink(missing_ok=True)


def _mode() -> int:
    return 0o755 if os.geteuid() == 0 else 0o700


def _kill_holder(pid: int, lock: int) -> bool:
    """Kill a process that has this descriptor's file open; False if it has not. The pid file may be wrong."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not _has_open(pid, os.fstat(lock)):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        ended.poll(_KILL_S * 1000)
        log.warning("process %d, which should have ended, was killed", pid)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _has_open(pid: int, file: os.stat_result) -> bool:
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{fd}"), file):
                return True
    return False


def _locked_within(fd: int, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while not _locked(fd):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_TRY_AGAIN_S)
    return True


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
