"""What a program reads and writes: pipes to its supervisor."""

import os

from .job_input import InputSocket
from .supervisor_orders import Orders


class Streams:
    """The ends of one program's streams.

    Attributes:
        stdin, stdout: the program's ends; stdin is -1 where it has no input but the supervisor's own, which is empty.
        output: what comes out of it, a descriptor that does not block.
        input: answers who sends it input, None where nobody does.
    """

    __slots__ = ("input", "output", "stdin", "stdout")

    def __init__(self, orders: Orders, directory: str) -> None:
        """Raises OSError. What opens /dev/stdin or /dev/stderr opens a pipe anew, which only its owner may."""
        self.stdin = -1
        self.input: InputSocket | None = None
        self.output, self.stdout = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.output, False)
        if orders.uid != -1:
            os.fchown(self.stdout, orders.uid, orders.gid)
        if orders.stdin:
            self.stdin, writer = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(writer, False)
            if orders.uid != -1:
                os.fchown(self.stdin, orders.uid, orders.gid)
            self.input = InputSocket(directory, writer)

    def started(self) -> None:
        """The program has its ends. Kept here too, it would never be known that it has closed them."""
        os.close(self.stdout)
        if self.stdin >= 0:
            os.close(self.stdin)

    def close(self) -> None:
        """The program has ended, and all that it wrote is read."""
        os.close(self.output)
        if self.input is not None:
            self.input.close()
