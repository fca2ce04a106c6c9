"""A terminal of a test's own with `corral` in it."""

import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from tests.e2e.box import CORRAL, PATIENCE_S


class Caller(Protocol):
    """Who types commands."""

    @property
    def env(self) -> dict[str, str]: ...


class Screen:
    """A terminal with `corral` in it."""

    def __init__(self, terminal: int, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.shown = b""
        self.terminal = terminal

    def until(self, text: bytes) -> None:
        """Read until `text` has been shown."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            assert self._read(), self.shown

    def after(self, text: bytes) -> None:
        """Read until `text` is shown, and forget what was shown so far."""
        self.until(text)
        self.shown = self.shown.partition(text)[2]

    def modes(self) -> list[Any]:
        """How the terminal is set."""
        return termios.tcgetattr(self.terminal)

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self.terminal, (rows, columns))

    def close(self) -> None:
        """As when its window is closed."""
        os.close(self.terminal)
        self.terminal = os.open(os.devnull, os.O_RDONLY)

    def press(self, key: bytes) -> None:
        os.write(self.terminal, key)

    def to_the_end(self) -> int:
        """Read all that is left; the exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_S)

    def _read(self) -> bytes:
        assert select.select([self.terminal], [], [], PATIENCE_S)[0], self.shown
        try:
            block = os.read(self.terminal, 65536)
        except OSError:  # what a terminal says when nobody is left at its other end
            block = b""
        self.shown += block
        return block


@contextmanager
def corral(box: Caller, *words: str, **environ: str) -> Iterator[Screen]:
    """The command as the leader of a session at a terminal of its own."""
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", CORRAL, *words],
        stdin=other_end, stdout=other_end, stderr=other_end,
        env={**box.env, "TERM": "xterm", "COLUMNS": "80", **environ},
    )  # fmt: skip
    os.close(other_end)
    screen = Screen(terminal, process)
    try:
        yield screen
    finally:
        process.kill()
        process.wait()
        screen.close()
