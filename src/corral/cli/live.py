"""A whole terminal that shows the same thing anew each second, as watch(1) does, until Ctrl-C."""

import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from corral.cli.screen import all_but_colours, clipped_line, painted
from corral.client import NoServer
from corral.model.errors import Refused

INTERVAL_S = 1.0

Frame = Callable[[], Sequence[str]]
"""The lines to show now, as `write_painted` takes them."""


def show_live(frame: Frame, command: str) -> None:
    """Show what `frame` gives until Ctrl-C; also at once when the size of the terminal changes.

    While the server does not answer, the last lines stay, with a word of it. Lines that have no room are counted.
    Raises Refused where standard output is no terminal, and what the first frame raises.
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
    # What looks at standard output, for colour or for its encoding, is to find the terminal.
    live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    with suppress(KeyboardInterrupt), _prompted() as prompt, live:
        shown_at = time.time()
        away = ""
        while True:
            text = "\n".join(all_but_colours(line) for line in _fitting(lines, away))
            live.update(Text.from_ansi(text, no_wrap=True, overflow="crop", end=""), refresh=True)
            prompt.wait(INTERVAL_S)
            prompt.clear()
            try:
                lines, shown_at, away = frame(), time.time(), ""
            except NoServer as error:
                since = time.strftime("%H:%M:%S", time.localtime(shown_at))
                away = f"as of {since}; {error}"


def _fitting(lines: Sequence[str], away: str) -> list[str]:
    """As many of the lines as the terminal has room for, and how many there are more."""
    rows = shutil.get_terminal_size((80, 24)).lines
    shown = [painted(clipped_line(away), "red"), *lines] if away else list(lines)
    if len(shown) <= rows:
        return shown
    hidden = len(shown) - rows + 1
    return [*shown[: rows - 1], painted(f"{hidden} more lines", "dim")]


@contextmanager
def _prompted() -> Iterator[threading.Event]:
    """An event that is set when the terminal's size changes. What else may end it ends the view as Ctrl-C does."""
    changed = threading.Event()

    def ended(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, ended)
    before = signal.signal(signal.SIGWINCH, lambda number, frame: changed.set())
    try:
        yield changed
    finally:
        signal.signal(signal.SIGWINCH, before)
