"""A job's log: everything until it is nearly full, then the end of it, and between them a line saying what is gone."""

import ctypes
import errno
import os
from collections.abc import Iterable

from .log_marks import SPACING_S, LogMarks
from .own_log import open_own_log
from .whole_files import open_regular

TAIL_BYTES = 64 * 1024
_READ_BYTES = 64 * 1024
_SPLICE_BYTES = 1024 * 1024
_FIRST_BYTES = 4096
_REST_MS = SPACING_S * 1000

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE of fallocate(2), which the standard library does not have
_fallocate = ctypes.CDLL(None).fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def append_note(path: str, line: str) -> int | None:
    """Write a line of Corral's own to the end of a job's log, from another process than the one that writes the log;
    how long the log is then.

    None, and nothing happens, where there is no log. Raises OSError when it cannot be written, as where the job has
    put a fifo.
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
    """What must come before a line of Corral's own where the last line of the log has no end yet."""
    size = os.lseek(fd, 0, os.SEEK_END)
    return b"\n" if size and os.pread(fd, 1, size - 1) != b"\n" else b""


def append_lines(path: str, lines: Iterable[str], owner: tuple[int, int] | None) -> int:
    """Write lines of Corral's own as `append_note` does, to a log that is made for `owner` where there is none."""
    fd = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        if owner is not None and os.fstat(fd).st_size == 0:
            os.fchown(fd, *owner)
        os.write(fd, _on_a_new_line(fd) + b"".join(map(_note, lines)))
        return os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)


def _note(line: str, end: str = "\n") -> bytes:
    # Some of it may be a job's own words, which could pass for another line of Corral's or command a terminal. The
    # supervisors share no module with the rest of Corral, or `corral.model.printable` would do it.
    shown = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in line)
    return f"corral: {shown}{end}".encode(errors="backslashreplace")


class JobLog:
    """Moves what a job prints from its pipe to its log, and never lets a full disk stop or block the job.

    The file holds at most `max_bytes` of output of this launch. Its last 64 KiB (half of `max_bytes` if that is
    less) are kept for the end of the output, which waits in memory until the job ends. Once writing fails, the rest
    is handled as if the limit had been reached; `error` then says what failed. What a program writes to a terminal is
    kept as it is, and lines of Corral's own end as on one that changes nothing.
    """

    def __init__(
        self,
        path: str,
        owner: tuple[int, int],
        max_bytes: int,
        boot_at: float | None = None,
        *,
        of_terminal: bool = False,
        job: str = "",
    ) -> None:
        """`boot_at` is when this boot began in the server's time, by which it is noted when what was written.

        `job` is of which job it is, as `open_own_log` has it.
        """
        self.error = ""
        self.dropped_bytes = 0
        self._tail_limit = min(TAIL_BYTES, max_bytes // 2)
        self._room = max_bytes - self._tail_limit
        self._max_bytes = max_bytes
        self._tail = bytearray()
        self._of_terminal = of_terminal
        self._spliceable = not of_terminal
        self._line_end = "\r\n" if of_terminal else "\n"
        self._fd = -1
        self._marks: LogMarks | None = None
        try:
            # A retry goes on in the same file. No O_APPEND: splice refuses it, so the end is looked for each time:
            # the server writes lines of its own to it.
            self._fd = open_own_log(path, job)
            if owner != (-1, -1):
                os.fchown(self._fd, *owner)
            size = os.lseek(self._fd, 0, os.SEEK_END)
            self._marks = LogMarks(path, size, boot_at)
            if size == 0:
                # A block for the first lines, and for one that says what is missing once the disk is full.
                _fallocate(self._fd, _KEEP_SIZE, 0, _FIRST_BYTES)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if not self.error:
            self.error = f"cannot write the log: {error.strerror}"
        self._room = 0

    def _write(self, data: bytes) -> bool:
        try:
            end = os.lseek(self._fd, 0, os.SEEK_END) + len(data)
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._give_up(error)
            return False
        if self._marks is not None:
            self._marks.wrote(end)
        return True

    def rest_ms(self) -> float | None:
        """After so long without output `rest` has something to do; None while it has nothing."""
        return _REST_MS if self._marks is not None and self._marks.pending else None

    def rest(self) -> None:
        """There was no output for a while: note when the last of it was written."""
        if self._marks is not None:
            self._marks.rest()

    def note(self, line: str) -> None:
        """One line of Corral's own."""
        try:
            begin = _on_a_new_line(self._fd)
        except OSError:
            begin = b""
        self._write(begin + _note(line, self._line_end))

    def _mark_in_place(self, line: str) -> None:
        """Have the file end with a line of Corral's own where there is no room for one more: its end gives way."""
        mark = b"\n" + _note(line)
        try:
            size = os.lseek(self._fd, 0, os.SEEK_END)
            if size >= len(mark):
                os.pwrite(self._fd, mark, size - len(mark))
                self.dropped_bytes += len(mark)
        except OSError:
            # Only the exit record tells then.
            return

    def drain(self, pipe: int) -> bool:
        """Take what the non-blocking pipe holds, at most one portion. False at its end."""
        if self._room > 0 and self._spliceable:
            try:
                size = os.lseek(self._fd, 0, os.SEEK_END)
                moved = os.splice(pipe, self._fd, min(self._room, _SPLICE_BYTES), flags=os.SPLICE_F_NONBLOCK)
                self._room -= moved
                if moved and self._marks is not None:
                    self._marks.wrote(size + moved)
                return moved > 0
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno == errno.EINVAL:
                    self._spliceable = False
                else:
                    self._give_up(error)
        try:
            data = os.read(pipe, _READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            # A terminal whose session has ended.
            return False
        self._take(data)
        return bool(data)

    def _take(self, data: bytes) -> None:
        head, rest = data[: self._room], data[self._room :]
        if head:
            if self._write(head):
                self._room -= len(head)
            else:
                rest = data
        if rest:
            if self._of_terminal and not self._tail and not self.error:
                # Who sits at it sees what is in the log.
                self._say_full()
            self._tail += rest
            surplus = len(self._tail) - self._tail_limit
            # Cut now and then rather than on every read: it moves the whole tail.
            if surplus > self._tail_limit:
                self._cut(surplus)

    def _say_full(self) -> None:
        self.note(f"the log is full ({self._max_bytes} bytes); nothing more is shown here until the end")

    def _cut(self, surplus: int) -> None:
        if not self.dropped_bytes and not self._of_terminal and not self.error:
            # Who follows it, or looks at its end, would take an old line for the newest.
            self._say_full()
        del self._tail[:surplus]
        self.dropped_bytes += surplus

    def close(self, last_line: str = "") -> None:
        """Write the end of the output, and a line of Corral's own. Afterwards `dropped_bytes` and `error` are final."""
        if self._fd < 0:
            self.dropped_bytes += len(self._tail)
            return
        surplus = len(self._tail) - self._tail_limit
        if surplus > 0:
            self._cut(surplus)
        why = self.error or f"the log is limited to {self._max_bytes} bytes"
        if self.dropped_bytes or (self.error and self._tail):
            self.note(f"{self.dropped_bytes} bytes of output are missing here ({why}); what follows is its end")
        if self._tail and not self._write(bytes(self._tail)):
            self.dropped_bytes += len(self._tail)
            self._mark_in_place(f"{self.dropped_bytes} bytes of output are missing here ({why})")
        if last_line:
            self.note(last_line)
        if self._marks is not None:
            self._marks.close()
        os.close(self._fd)
