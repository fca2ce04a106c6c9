"""The logs of jobs on this host, read piecewise, and lines of Corral's own in them."""

import base64
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.home import log_name
from corral.core.ports.node import LogChunk
from corral.host.runtimes.process.output.log_marks import mark_end, written_since
from corral.host.runtimes.process.output.log_notes import append_lines, append_note
from corral.host.runtimes.process.records.own_log import is_of_another, open_own_log

log = logging.getLogger(__name__)

MOST_BYTES = 1024 * 1024
"""A longer piece is asked for in several."""

_LAST_BYTE = 1 << 62
"""Offsets beyond are none that the kernel takes."""

_JOB_ID = re.compile(r"\d{1,20}(_\d{1,20})?")


class JobLogs:
    """The directory of logs. A job may put another file in its log's place: links are not followed, and no read
    blocks.
    """

    def __init__(self, directory: Path, now: Callable[[], float] = time.time) -> None:
        """`now` is the host's time as its supervisors count it."""
        self._directory = directory
        self._now = now

    def read(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        """Return a piece of at most `max_bytes`, and of no more than MOST_BYTES; `mark` identifies the job
        (`log_mark`).
        """
        path = self._path(job_id, rank)
        if not 0 <= offset <= _LAST_BYTE:
            raise Refused(f"a log has no byte {offset!s:.40}; count from 0", field="offset")
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return LogChunk("", None)
        except OSError as error:
            raise BackendFailed(f"cannot read the log {path}: {error.strerror}") from None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise BackendFailed(f"cannot read the log {path}: it is not a file any more")
            data = os.pread(fd, max(0, min(max_bytes, MOST_BYTES)), offset)
        except OSError as error:
            raise BackendFailed(f"cannot read the log {path}: {error.strerror}") from None
        finally:
            os.close(fd)
        # Looked at last: a log that another job has begun meanwhile has its mark before its first byte.
        if is_of_another(str(path), mark):
            return LogChunk("", None)
        return LogChunk(base64.b64encode(data).decode(), max(found.st_size, offset + len(data)))

    def written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None:
        """Return the byte from which on it was written in the last `ago_s` seconds, or a little earlier.

        None if the times of the text are unknown, or the log is another job's. Raises BackendFailed, Refused.
        """
        path = self._path(job_id, rank)
        try:
            start = written_since(str(path), self._now() - ago_s)
        except OSError as error:
            raise BackendFailed(f"cannot read when the log {path} was written: {error.strerror}") from None
        return None if is_of_another(str(path), mark) else start

    def note(self, job_id: str, rank: int, line: str) -> None:
        """Write a line to the end of a member's log, if it has one; errors are only logged."""
        path = self._path(job_id, rank)
        try:
            size = append_note(str(path), line)
            if size is not None:
                mark_end(str(path), self._now(), size)
        except OSError as error:
            log.warning("the log of job %s could not get a note: %s", job_id, error.strerror)

    def tell(self, job_id: str, lines: Sequence[str], owner: tuple[int, int] | None, *, rank: int = 0) -> None:
        """Write lines to the end of a member's log, which is made for `owner` (uid, gid) if it is missing."""
        path = self._path(job_id, rank)
        try:
            mark_end(str(path), self._now(), append_lines(str(path), lines, owner))
        except OSError as error:
            log.warning("the log of job %s could not get a note: %s", job_id, error.strerror)

    def own(self, job_id: str, rank: int, mark: str) -> None:
        """Make a member's log that of this job (`log_mark`): another job's log under its name is moved aside.

        Raises BackendFailed, Refused.
        """
        path = self._path(job_id, rank)
        try:
            os.close(open_own_log(str(path), mark))
        except OSError as error:
            raise BackendFailed(f"cannot write the log {path}: {error.strerror}") from None

    def append(self, job_id: str, rank: int, output: bytes) -> None:
        """Write a member's output from elsewhere to the end of its log, which is made if it is missing.

        Raises BackendFailed, Refused.
        """
        path = self._path(job_id, rank)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
            with os.fdopen(fd, "wb", buffering=0) as file:
                view = memoryview(output)
                while view:
                    view = view[file.write(view) :]
                mark_end(str(path), self._now(), file.tell())
        except OSError as error:
            raise BackendFailed(f"cannot write the log {path}: {error.strerror}") from None

    def _path(self, job_id: str, rank: int) -> Path:
        if not _JOB_ID.fullmatch(job_id) or rank < 0:
            raise Refused(f"{job_id!r:.60} with rank {rank} names no log", field="job_id")
        return self._directory / log_name(job_id, rank)
