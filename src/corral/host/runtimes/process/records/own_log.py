"""The owner of a log: a link beside it, `17.log.of`, names the job. Another job's log with that name is moved aside.

A name can come twice if a ledger was restored from an older copy. No job can write the link if the server is root's.
"""

import os
import time
from contextlib import suppress

from corral.host.runtimes.process.records.whole_files import open_regular


def mark_of(log_path: str) -> str:
    """Return the path of the link that names a log's job."""
    return f"{log_path}.of"


def open_own_log(log_path: str, job: str) -> int:
    """Return a descriptor of the log, whose earlier contents are this job's. Raises OSError.

    `job` is unique to the job; "" accepts any job's log. A log that is not known to be the job's own is moved aside.
    """
    if not job or _is_of(log_path, job):
        return open_regular(log_path, os.O_RDWR | os.O_CREAT)
    _move_aside(log_path)
    fd = open_regular(log_path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    # The mark comes last: without it the next attempt begins a new log, which exposes nothing.
    with suppress(OSError):
        _mark(log_path, job)
    return fd


def is_of_another(log_path: str, job: str) -> bool:
    """Return whether the log is another job's, or its owner cannot be read. A log without a mark is not another's."""
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
    """Rename the log, and the file with its times, to unused names."""
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
