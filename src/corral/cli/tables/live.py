"""A full-screen display that is updated each second, as by watch(1), until q or Ctrl-C."""

import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Self

from corral.cli.screen import all_but_colours, clipped_line, painted
from corral.client import NoServer
from corral.core.model.errors import Refused

INTERVAL_S = 1.0

_MOST_KEYS = 4096

Frame = Callable[[], Sequence[str]]
"""A function that returns the lines to show now, as `write_painted` takes them."""


def show_live(frame: Frame, command: str) -> None:
    """Show the lines of `frame` until q or Ctrl-C is pressed. A change of the terminal's size updates them at once.

    While the server does not answer, the last lines stay, with a notice. Lines without room are counted. Raises Refused
    if standard output is not a terminal, and the errors of the first frame.
    """
    if not sys.stdout.isatty():
        raise Refused(
            f"--watch needs a terminal; `corral {command}` without it prints once, and --json is for programs",
            field="--watch",
        )
    lines = frame()
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    # Standard output must stay the terminal for code that checks it for colours or its encoding.
    live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    with suppress(KeyboardInterrupt), _ending_as_ctrl_c_does(), _Keys() as keys, live:
        shown_at = time.time()
        away = ""
        while True:
            text = "\n".join(all_but_colours(line) for line in _fitting(lines, away))
            live.update(Text.from_ansi(text, no_wrap=True, overflow="crop", end=""), refresh=True)
            if keys.leave_within(INTERVAL_S):
                return
            try:
                lines, shown_at, away = frame(), time.time(), ""
            except NoServer as error:
                since = time.strftime("%H:%M:%S", time.localtime(shown_at))
                away = f"as of {since}; {error}"


def _fitting(lines: Sequence[str], away: str) -> list[str]:
    """As many lines as fit the terminal, and the number of hidden lines."""
    rows = shutil.get_terminal_size((80, 24)).lines
    shown = [painted(clipped_line(away), "red"), *lines] if away else list(lines)
    if len(shown) <= rows:
        return shown
    hidden = len(shown) - rows + 1
    return [*shown[: rows - 1], painted(f"{hidden} more lines", "dim")]


class _Keys:
    """Waits for q, or for a new terminal size. If standard input is not our terminal, no key is read."""

    def __init__(self) -> None:
        self._terminal: int | None = None
        self._usual: list[Any] = []
        self._resized, self._resize = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGWINCH, self._on_resize)
        with suppress(OSError, termios.error, ValueError):
            terminal = sys.stdin.fileno()
            # A process in the background would be stopped.
            if os.tcgetpgrp(terminal) == os.getpgrp():
                self._usual = termios.tcgetattr(terminal)
                tty.setcbreak(terminal, termios.TCSADRAIN)
                self._terminal = terminal
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGWINCH, self._before)
        if self._terminal is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._usual)
        os.close(self._resized)
        os.close(self._resize)

    def leave_within(self, seconds: float) -> bool:
        """Wait for q, at most this long or until the terminal's size changes. Return whether q was pressed."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            watched = [self._resized, *([] if self._terminal is None else [self._terminal])]
            ready = select.select(watched, [], [], left)[0]
            if self._terminal in ready and self._q_is_pressed(self._terminal):
                return True
            if self._resized in ready:
                os.read(self._resized, _MOST_KEYS)
                return False
        return False

    def _q_is_pressed(self, terminal: int) -> bool:
        try:
            pressed = os.read(terminal, _MOST_KEYS)
        except OSError:
            pressed = b""
        if not pressed:
            # The terminal was closed, so no more keys come.
            self._terminal = None
        return b"q" in pressed.lower()

    def _on_resize(self, number: int, frame: FrameType | None) -> None:
        with suppress(BlockingIOError):
            os.write(self._resize, b".")


@contextmanager
def _ending_as_ctrl_c_does() -> Iterator[None]:
    """Turn signals that end the process into SystemExit, so that the terminal is restored."""

    def ended(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, ended)
    yield
