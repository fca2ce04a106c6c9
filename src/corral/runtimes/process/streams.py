"""What a program reads and writes: pipes to its supervisor, or a terminal."""

import os
from typing import Protocol

from .job_input import InputSocket
from .pseudo_terminal import open_terminal
from .supervisor_orders import Orders


class ProgramEnds(Protocol):
    """What a program is started with; `Streams` says what each is."""

    stdin: int
    stdout: int
    stderr: int
    is_terminal: bool


class Streams:
    """The ends of one program's streams.

    Attributes:
        stdin, stdout: the program's ends; stdin is -1 where it has no input but the supervisor's own, which is empty.
        stderr: the program's end for errors, -1 where they go where its output goes.
        output: what comes out of it, a descriptor that does not block.
        input: answers who sends it input, None where nobody does.
        is_terminal: whether both of the program's ends are one terminal, which is to be its session's.
    """

    __slots__ = ("input", "is_terminal", "output", "stderr", "stdin", "stdout")

    def __init__(self, orders: Orders, directory: str) -> None:
        """Raises OSError."""
        self.stdin = self.stderr = -1
        self.input: InputSocket | None = None
        self.is_terminal = orders.terminal is not None
        if orders.terminal is not None:
            rows, columns = orders.terminal
            self.output, self.stdout = open_terminal(rows, columns, orders.uid)
            self.stdin = self.stdout
            self.input = InputSocket(directory, os.dup(self.output), is_terminal=True)
            return
        self.output, self.stdout = _pipe(orders)
        os.set_blocking(self.output, False)
        if orders.stdin:
            self.stdin, writer = _pipe(orders)
            os.set_blocking(writer, False)
            self.input = InputSocket(directory, writer)

    def started(self) -> None:
        """The program has its ends. A pipe's, kept here too, would never be known to be closed by the program.

        A terminal's is kept: it would hang up when the program closes it, though it may open it again.
        """
        if not self.is_terminal:
            os.close(self.stdout)
            if self.stdin >= 0:
                os.close(self.stdin)

    def close(self) -> None:
        """The program has ended, and all that it wrote is read."""
        os.close(self.output)
        if self.is_terminal:
            os.close(self.stdout)
        if self.input is not None:
            self.input.close()


def _pipe(orders: Orders) -> tuple[int, int]:
    """A pipe. What opens /dev/stdin or /dev/stderr opens it anew, which only its owner may."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    if orders.uid != -1:
        os.fchown(reader, orders.uid, orders.gid)
        os.fchown(writer, orders.uid, orders.gid)
    return reader, writer
