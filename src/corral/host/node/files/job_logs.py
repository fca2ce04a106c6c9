"""The logs of jobs on this host: the job of each log, pieces of its text, and Corral's own lines in it.

A link beside a log, `17.log.of`, identifies its job: if a ledger was restored from an older copy, two jobs may have the
same log name. No job can write the link if the server is root's. A log of another job with that name is moved aside.
"""

import base64
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.home import log_name
from corral.core.model.printable import printable
from corral.core.ports.node import LogChunk
from corral.host.runtimes.process.output.log_marks import mark_end, written_since
from corral.host.runtimes.process.records.whole_files import open_regular

log = logging.getLogger(__name__)

MOST_BYTES = 1024 * 1024
"""The most bytes of one piece."""

_LAST_BYTE = 1 << 62
"""The highest offset that the kernel accepts."""

_JOB_ID = re.compile(r"\d{1,20}(_\d{1,20})?")


class JobLogs:
    """The directory of logs. A job may replace its log by another kind of file, so links are not followed and no read
    blocks.
    """

    def __init__(self, directory: Path, now: Callable[[], float] = time.time) -> None:
        """`now` returns the host's time by the clock that its supervisors use."""
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
        # The mark is read last: another job writes its mark before the first byte of its log.
        if _is_of_another(str(path), mark):
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
        return None if _is_of_another(str(path), mark) else start

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
            mark_end(str(path), self._now(), _append_lines(str(path), lines, owner))
        except OSError as error:
            log.warning("the log of job %s could not get a note: %s", job_id, error.strerror)

    def own(self, job_id: str, rank: int, mark: str) -> None:
        """Make sure that a member's log belongs to this job (`log_mark`): another job's log under its name is moved
        aside.

        Raises BackendFailed, Refused.
        """
        path = self._path(job_id, rank)
        try:
            os.close(open_own_log(str(path), mark))
        except OSError as error:
            raise BackendFailed(f"cannot write the log {path}: {error.strerror}") from None

    def append(self, job_id: str, rank: int, output: bytes) -> None:
        """Append output that was produced elsewhere to a member's log. A missing log is created.

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


def append_note(path: str, line: str) -> int | None:
    """Write a line of Corral's own to the end of a job's log, from a process that is not the log's writer.

    Return the new length of the log; None, without writing, if there is no log. Raises OSError if it cannot be written,
    as when the job has put a fifo in its place.
    """
    try:
        fd = open_regular(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        return None
    try:
        os.write(fd, _on_a_new_line(fd) + _note(line))
        return os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)


def _on_a_new_line(fd: int) -> bytes:
    """Return the newline that must precede a line of Corral's own if the log's last line is not complete."""
    size = os.lseek(fd, 0, os.SEEK_END)
    return b"\n" if size and os.pread(fd, 1, size - 1) != b"\n" else b""


def _append_lines(path: str, lines: Iterable[str], owner: tuple[int, int] | None) -> int:
    """Write lines of Corral's own as `append_note` does, to a log that is made for `owner` if it is missing."""
    fd = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        if owner is not None and os.fstat(fd).st_size == 0:
            os.fchown(fd, *owner)
        os.write(fd, _on_a_new_line(fd) + b"".join(map(_note, lines)))
        return os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)


def _note(line: str) -> bytes:
    # Parts of the line may be a job's own words, which could imitate a line of Corral's or control a terminal.
    return f"corral: {printable(line)}\n".encode(errors="backslashreplace")


def _mark_of(log_path: str) -> str:
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


def _is_of_another(log_path: str, job: str) -> bool:
    """Return whether the log is another job's, or its owner cannot be read. A log without a mark is not another's."""
    try:
        return os.readlink(_mark_of(log_path)) != job
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _is_of(log_path: str, job: str) -> bool:
    try:
        return os.readlink(_mark_of(log_path)) == job
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
        os.symlink(job, _mark_of(log_path))
    except FileExistsError:
        os.unlink(_mark_of(log_path))
        os.symlink(job, _mark_of(log_path))
