"""The end of a log, as lines that are safe to show. Pure; what it keeps has a limit, whatever a job writes."""

import re
from collections import deque

from corral.model.printable import printable

MOST_LINES = 5_000
MOST_CHARACTERS = 10_000
"""Of a line; what is behind that is cut, and it says so."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-Z\\^_])")
"""What a terminal would obey: colours, movements, titles. Here it is left out."""


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
        # A line that never ends takes no more memory than one that was cut.
        self._open = rest[-4 * MOST_CHARACTERS :]
        self._is_open = bool(rest)
        if self._is_open:
            self.lines.append(shown_line(self._open))
        while len(self.lines) > MOST_LINES:
            self.lines.popleft()
            self.removed += 1


def shown_line(line: str) -> str:
    """What a terminal would show of a line: without escapes, and of a progress bar its last state."""
    # Of a long progress bar the end has its last state; of any other long line the beginning is what is read.
    end = line[-4 * MOST_CHARACTERS :]
    looked_at = end if "\r" in end else line[: 4 * MOST_CHARACTERS]
    told = _ESCAPES.sub("", looked_at).rstrip("\r").rpartition("\r")[2].expandtabs()
    is_cut = len(told) > MOST_CHARACTERS or (looked_at is not end and len(looked_at) < len(line))
    return printable(told[:MOST_CHARACTERS]) + ("… (cut)" if is_cut else "")
