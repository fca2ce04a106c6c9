"""Whose a log is: a link beside it, `17.log.of`, names the job. What another job left under that name is moved aside.

A name comes twice where a ledger was restored from an older copy. No job can write the link where the server is root's.
"""

import os
import time
from contextlib import suppress

from .whole_files import open_regular


def mark_of(log_path: str) -> str:
    """Where it stands of which job a log is."""
    return f"{log_path}.of"


def open_own_log(log_path: str, job: str) -> int:
    """A descriptor of the log, whose earlier contents are this job's. Raises OSError.

    `job` is what no two jobs share, "" for whatever job it is. What is not known to be the job's own is moved aside.
    """
    if not job or _is_of(log_path, job):
        return open_regular(log_path, os.O_RDWR | os.O_CREAT)
    _move_aside(log_path)
    fd = open_regular(log_path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    # The mark comes last: without it the next attempt begins a log of its own, which shows nobody anything.
    with suppress(OSError):
        _mark(log_path, job)
    return fd


def is_of_another(log_path: str, job: str) -> bool:
    """Whether the log is known to be another job's, or cannot be known not to be. One without a mark is not."""
    try:
        return os.readlink(mark_of(log_path)) != job
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _is_of(log_path: str, job: str) -> bool:
    try:
        return os.readlink(mark_of(log_path)) == job
    except OSError:
        return False


def _move_aside(log_path: str) -> None:
    """Give the log, and the notes on when it was written, names that nobody looks for."""
    aside = f"{log_path}.until-{time.time_ns()}"
    for ending in ("", ".times"):
        with suppress(FileNotFoundError):
            os.rename(log_path + ending, aside + ending)


def _mark(log_path: str, job: str) -> None:
    try:
        os.symlink(job, mark_of(log_path))
    except FileExistsError:
        os.unlink(mark_of(log_path))
        os.symlink(job, mark_of(log_path))
