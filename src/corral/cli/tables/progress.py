"""A progress line on standard error. Nothing is shown if that is not a terminal."""

import sys
import time
from types import TracebackType
from typing import Self

from corral.cli.screen import clipped, width
from corral.formatting.bars import bar

_SPACING_S = 0.1
_LINE_START = "\r\033[2K"
_BAR = 24


class ProgressLine:
    """One line, changed in place and removed at the end, also by an exception, whose message then has its own line."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown_at = float("-inf")
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clear()

    def show(self, done: int, total: int, what: str) -> None:
        """Show the line, unless it was shown just now. It may be called at every step."""
        now = time.monotonic()
        if not self._terminal or now - self._shown_at < _SPACING_S:
            return
        self._shown_at, self._shown = now, True
        part = done / total if total else 0.0
        text = clipped(f"{bar(part, _BAR, sys.stderr)} {part:>4.0%}  {what}", width() - 1)
        sys.stderr.write(_LINE_START + text)
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line, so that other output can be written."""
        if self._shown:
            sys.stderr.write(_LINE_START)
            sys.stderr.flush()
        self._shown, self._shown_at = False, float("-inf")
