"""Send this command's standard input to its job."""

import os
import select
import signal
import stat
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from corral.cli.screen import say
from corral.client import Client
from corral.core.model.errors import BackendFailed, CorralError, LedgerFailed
from corral.core.model.jobs.input import InputState

if TYPE_CHECKING:
    from corral.core.model.answers.job_changes import InputProgress
    from corral.core.model.jobs.input import TerminalSize

PORTION_BYTES = 64 * 1024
PRESENT_S = 20.0
"""How often this command shows the server that it is still there, if it has nothing to send."""

_STDIN = 0
_NULL = os.makedev(1, 3)
_AGAIN_S = 0.2


def has_input() -> bool:
    """Whether standard input comes from a program or a file, not a person: a non-empty file, a pipe, a socket."""
    try:
        found = os.fstat(_STDIN)
        if stat.S_ISREG(found.st_mode):
            return os.lseek(_STDIN, 0, os.SEEK_CUR) < found.st_size
        return found.st_rdev != _NULL and not stat.S_ISDIR(found.st_mode) and not os.isatty(_STDIN)
    except OSError:
        return False


class InputTarget(Protocol):
    """A receiver of input: a job, or a command inside a job."""

    def write(self, client: Client, data: bytes, *, offset: int, end: bool) -> "InputProgress":
        """Send input, as `corral.client.jobs.Jobs.write_input` does."""
        ...

    def resize(self, client: Client, size: "TerminalSize") -> None:
        """Set the size of the target's terminal."""
        ...


class JobInput:
    """A job as the receiver of input. It has a terminal if it was submitted with one."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def __str__(self) -> str:
        return f"job {self._job_id}"

    def write(self, client: Client, data: bytes, *, offset: int, end: bool) -> "InputProgress":
        return client.jobs.write_input(self._job_id, data, offset=offset, end=end)

    def resize(self, client: Client, size: "TerminalSize") -> None:
        client.jobs.resize_terminal(self._job_id, size.rows, size.columns)


class InputSource(Protocol):
    """A source of input."""

    def begin(self) -> None:
        """Called when the target takes input for the first time."""
        ...

    def next(self, client: Client, timeout_s: float) -> tuple[bytes, bool]:
        """The next input, b"" if there is none in time, and whether it is the end."""
        ...


class StandardInput:
    """Input from a file or a pipe."""

    def begin(self) -> None:
        """Nothing to do: a file or a pipe can be read at any time."""

    def next(self, client: Client, timeout_s: float) -> tuple[bytes, bool]:
        if not select.select([_STDIN], [], [], timeout_s)[0]:
            return b"", False
        portion = os.read(_STDIN, PORTION_BYTES)
        return portion, not portion


class InputStream:
    """Reads a source as fast as the target takes its input, on its own thread and connection."""

    def __init__(self, target: InputTarget, source: InputSource) -> None:
        self._target = target
        self._source = source
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send, name="input", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # The thread may be blocked in a read. It is a daemon thread, so it ends with the process.
        self._over.set()

    def _send(self) -> None:
        # Signals must reach the main thread, to interrupt its blocking calls.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with Client() as client:
                self._send_all(client)
        except (CorralError, OSError) as error:
            if not self._over.is_set():
                say(f"input of {self._target} is not sent any more: {error}")

    def _send_all(self, client: Client) -> None:
        portion, offset, end, begun = b"", 0, False, False
        while not self._over.is_set():
            try:
                progress = self._target.write(client, portion, offset=offset, end=end)
            except (BackendFailed, LedgerFailed):
                # The server restarts, or the job's node does not answer. Another part detects the job's end.
                time.sleep(_AGAIN_S)
                continue
            if progress.state == InputState.CLOSED:
                return
            if progress.state == InputState.WAITING:
                continue
            if not offset <= progress.offset <= offset + len(portion):
                raise BackendFailed(f"it has {progress.offset} bytes, and {offset} were sent")
            if not begun:
                begun = True
                self._source.begin()
            portion, offset = portion[progress.offset - offset :], progress.offset
            if not portion and not end:
                portion, end = self._source.next(client, PRESENT_S)
