"""This command's terminal as the terminal of a job: each key goes to the job when it is typed."""

import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from corral.cli.jobs.input_stream import InputTarget
from corral.client import Client
from corral.core.model.errors import CorralError, Refused
from corral.core.model.jobs.input import TerminalSize

LEAVING_KEY = b"\x1d"
"""The key Ctrl-]."""

LEAVING_TIMES = 3
LEAVING_WITHIN_S = 1.0
LEAVING_DELAY_S = 0.2

_STDIN = 0
_READ_BYTES = 4096


class Terminal:
    """Standard input as a terminal that passes every key on (raw mode) while a job has it.

    Use it as a context in the main thread. At its end, for any reason, the terminal is as before. Raises Refused if
    standard input is not a terminal.
    """

    def __init__(self) -> None:
        if not os.isatty(_STDIN):
            raise Refused(
                "--pty needs a terminal, and standard input is none; leave out --pty to pass input on from a file or a "
                "pipe",
                field="--pty",
            )
        # Reentrant: a signal handler may write while the same thread holds the lock.
        self._lock = threading.RLock()
        self._usual: list[Any] | None = None
        self._is_raw = False
        self._changed, self._change = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        self._usual = termios.tcgetattr(_STDIN)
        signal.signal(signal.SIGWINCH, lambda *_: self._on_change())
        signal.signal(signal.SIGCONT, lambda *_: self._on_continue())
        # Ctrl-Z is for the job. A stop of this command by another process would leave a raw terminal behind.
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.give_back()

    def size(self) -> TerminalSize:
        """The current size; 24 x 80 if the terminal has none."""
        size, usual = os.get_terminal_size(_STDIN), TerminalSize()
        return TerminalSize(size.lines or usual.rows, size.columns or usual.columns)

    def take(self) -> None:
        """Give the terminal to the job. Does nothing after `give_back`."""
        with self._lock:
            if self._usual is not None:
                self._is_raw = True
                with suppress(termios.error):
                    tty.setraw(_STDIN, termios.TCSADRAIN)

    def give_back(self) -> None:
        """Restore the terminal for good."""
        with self._lock:
            self._restore()
            self._usual, self._is_raw = None, False

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Restore the terminal for a moment, on a new line."""
        with self._lock:
            was_raw = self._is_raw
            if was_raw:
                self._restore()
                with suppress(OSError):
                    sys.stderr.write("\n")
            try:
                yield
            finally:
                if was_raw:
                    self.take()

    def next_keys(self, timeout_s: float) -> bytes | None:
        """The next keys; b"" if the time is up or the size has changed, None if the terminal is gone."""
        ready, _, _ = select.select([_STDIN, self._changed], [], [], timeout_s)
        if self._changed in ready:
            os.read(self._changed, _READ_BYTES)
            return b""
        if not ready:
            return b""
        try:
            return os.read(_STDIN, _READ_BYTES) or None
        except OSError:
            return None

    def _restore(self) -> None:
        if self._usual is not None:
            # The terminal may be gone. Then there is nothing to restore.
            with suppress(termios.error):
                termios.tcsetattr(_STDIN, termios.TCSADRAIN, self._usual)

    def _on_change(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._change, b"x")

    def _on_continue(self) -> None:
        if self._is_raw:
            self.take()
        self._on_change()


class Keys:
    """The keys typed at a terminal, as the input of a job or command. It also sends each new size of the terminal."""

    def __init__(self, terminal: Terminal, target: InputTarget, on_begin: Callable[[], None]) -> None:
        self._terminal = terminal
        self._on_begin = on_begin
        self._target = target
        self._sent: TerminalSize | None = None
        self._leaving: deque[float] = deque(maxlen=LEAVING_TIMES)

    def begin(self) -> None:
        """Take the terminal, because the target runs now."""
        self._on_begin()
        self._terminal.take()

    def next(self, client: Client, timeout_s: float) -> tuple[bytes, bool]:
        """The next keys to send, if any. The leaving key sends this process SIGTERM, a terminal that is gone SIGHUP."""
        self._tell_size(client)
        keys = self._terminal.next_keys(timeout_s)
        if keys is None:
            os.kill(os.getpid(), signal.SIGHUP)
            threading.Event().wait()
        assert keys is not None
        if self._leaves(keys):
            # Send one more key, and delay the signal a moment. In bash the third Ctrl-] starts a search, which waits
            # for a key and does not notice the end.
            keys += LEAVING_KEY
            threading.Timer(LEAVING_DELAY_S, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return keys, False

    def _tell_size(self, client: Client) -> None:
        size = self._terminal.size()
        if size != self._sent:
            # The next change sends the size again.
            with suppress(CorralError):
                self._target.resize(client, size)
                self._sent = size

    def _leaves(self, keys: bytes) -> bool:
        now = time.monotonic()
        for key in keys:
            if key == LEAVING_KEY[0]:
                self._leaving.append(now)
            else:
                self._leaving.clear()
        return len(self._leaving) == LEAVING_TIMES and now - self._leaving[0] <= LEAVING_WITHIN_S
