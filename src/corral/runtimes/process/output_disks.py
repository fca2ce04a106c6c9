"""Whether the disk of a file that a job wrote its output to is full: then nothing else may say why the job failed."""

import os
import signal
import time

from .start_program import become_user, enter_workdir
from .supervisor_orders import Command

FULL_BYTES = 64 * 1024
"""A disk with less room is full: some file systems keep a little that nobody gets."""

_PATIENCE_S = 2.0
_LOOK_S = 0.01


def full_disk(command: Command) -> str:
    """The file for output of `command` whose disk is full, "" where none is, or none answers within 2 s.

    It is looked at by a process that becomes the job's user: the path is the user's, and may be one that never answers.
    """
    for path in {command.output: None, command.error: None}:
        if path is not None and _asked(command, path):
            return os.path.join(command.workdir, path)
    return ""


def _asked(command: Command, path: str) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            if command.uid is not None:
                become_user(command)
            enter_workdir(command)
            os._exit(_is_full(path))
        finally:
            os._exit(0)
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 1
        time.sleep(_LOOK_S)
    os.kill(pid, signal.SIGKILL)
    return False


def _is_full(path: str) -> bool:
    found = os.statvfs(path)
    # What is kept for root counts for root alone.
    blocks = found.f_bavail if os.geteuid() else found.f_bfree
    return found.f_blocks > 0 and blocks * found.f_frsize < FULL_BYTES
