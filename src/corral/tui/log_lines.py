"""The end of a log, as lines that are safe to show. Pure; its memory is bounded, whatever a job writes."""

import re
from collections import deque

from corral.core.model.printable import printable

MOST_LINES = 5_000
MOST_CHARACTERS = 10_000
"""The longest line; a longer one is cut and says so."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Escape sequences of terminals: colours, movements, titles. They are left out."""


class LogLines:
    """The last lines of a log that comes in pieces. `removed` counts those that are kept no more."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque()
        self.removed = 0
        self._open = ""
        self._is_open = False

    def add(self, text: str) -> None:
        """A piece of the log, which may begin and end anywhere."""
        *whole, rest = (self._open + text).split("\n")
        if self._is_open:
            self.lines.pop()
        for line in whole:
            self.lines.append(shown_line(line))
        # An endless line takes no more memory than a cut one.
        self._open = rest[-4 * MOST_CHARACTERS :]
        self._is_open = bool(rest)
        if self._is_open:
            self.lines.append(shown_line(self._open))
        while len(self.lines) > MOST_LINES:
            self.lines.popleft()
            self.removed += 1


def shown_line(line: str) -> str:
    """Return a line as a terminal would show it: without escapes, and only the last state of a progress bar."""
    # A long progress bar has its last state at the end; any other long line is read from its beginning.
    end = line[-4 * MOST_CHARACTERS :]
    looked_at = end if "\r" in end else line[: 4 * MOST_CHARACTERS]
    told = _ESCAPES.sub("", looked_at).rstrip("\r").rpartition("\r")[2].expandtabs()
    is_cut = len(told) > MOST_CHARACTERS or (looked_at is not end and len(looked_at) < len(line))
    return printable(told[:MOST_CHARACTERS]) + ("… (cut)" if is_cut else "")
