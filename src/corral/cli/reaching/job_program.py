"""A program of Corral's own that runs inside a job for this command, with its streams."""

import socket
import threading
from contextlib import suppress

from corral.cli.jobs.execute import CommandInput
from corral.cli.jobs.input_stream import PORTION_BYTES, InputSource, InputStream
from corral.client import Client
from corral.client.inner_process import STDOUT, InnerProcess
from corral.core.model.errors import CorralError
from corral.core.model.printable import printable
from corral.forwarding.sent_program import PYTHON, words_of

_NO_PROGRAM = 127
KEPT_BYTES = 2000
"""The last bytes of a program's errors that are kept."""


class ProgramThen:
    """A program for a job, and then input for it, as one stream."""

    def __init__(self, program: bytes, source: InputSource) -> None:
        self._program = program
        self._source = source

    def begin(self) -> None:
        self._source.begin()

    def next(self, client: Client, timeout_s: float) -> tuple[bytes, bool]:
        portion, self._program = self._program[:PORTION_BYTES], self._program[PORTION_BYTES:]
        return (portion, False) if portion else self._source.next(client, timeout_s)


class _SocketInput:
    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def begin(self) -> None:
        """Nothing to do: a socket can be read at any time."""

    def next(self, client: Client, timeout_s: float) -> tuple[bytes, bool]:
        self._line.settimeout(timeout_s)
        try:
            portion = self._line.recv(PORTION_BYTES)
        except TimeoutError:
            return b"", False
        except OSError:
            return b"", True
        return portion, not portion


class JobProgram:
    """A program in a job. Its input and output are `line`, which ends as the program does.

    `program` is from `sent_program.program`. Raises the errors of `Jobs.begin_exec`.
    """

    def __init__(self, client: Client, job_id: str, rank: int, name: str, program: bytes, *words: str) -> None:
        self._process = client.jobs.begin_exec(job_id, words_of(name, words), rank=rank, stdin=True)
        self._errors = b""
        self._failure: CorralError | None = None
        self.line, self._far = socket.socketpair()
        self._input = InputStream(CommandInput(client, self._process), ProgramThen(program, _SocketInput(self._far)))
        self._input.__enter__()
        self._reader = threading.Thread(target=self._read, args=(client,), name="output", daemon=True)
        self._reader.start()

    def _read(self, client: Client) -> None:
        try:
            for stream, data in self._process.output():
                if stream == STDOUT:
                    with suppress(OSError):
                        # After the end of `line` only the program's own end is of interest.
                        self._far.sendall(data)
                else:
                    self._errors = (self._errors + data)[-KEPT_BYTES:]
        except CorralError as error:
            self._failure = error
        finally:
            self._input.__exit__(None, None, None)
            with suppress(OSError):
                self._far.shutdown(socket.SHUT_RDWR)

    def ending(self, within_s: float | None = None) -> str | None:
        """Return why the program has ended, once `line` has; None if it has not `within_s`."""
        self._reader.join(within_s)
        if self._reader.is_alive():
            return None
        return str(self._failure) if self._failure is not None else ending_of(self._process, self._errors)


def ending_of(process: InnerProcess, errors: bytes) -> str:
    """Return why a program that was sent to a job has ended."""
    said = printable(errors.decode(errors="replace").strip().rpartition("\n")[2])
    if process.exit_code == _NO_PROGRAM:
        return f"there is no {PYTHON} on the PATH of the job, and Corral's program needs one"
    return process.message or said or f"Corral's program in the job ended with exit code {process.exit_code}"
