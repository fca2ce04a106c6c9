"""Reads the log of one job from its end on, on a thread of its own, while its screen is open."""

import queue
import re
import threading
import time
from collections import deque
from contextlib import suppress

from corral.client import Address
from corral.client.connecting.transport import NoServer, Transport
from corral.client.jobs import Jobs
from corral.core.model.errors import CorralError
from corral.core.model.printable import printable

TAIL_LINES = 1_000
"""The number of last lines to start with, however long the log is."""

MOST_PIECES = 256
"""Pieces that wait to be shown; while there are more, the log is not read. A piece has 64 KiB at most."""

_AGAIN_S = 1.0


class LogFeed:
    """The log as `lines`, which `take` updates. `told` is a remark about it."""

    def __init__(self, address: Address, job_id: str) -> None:
        self.lines = LogLines()
        self.told = ""
        self._transport = Transport(address)
        self._job_id = job_id
        self._pieces: queue.Queue[str | None] = queue.Queue(MOST_PIECES)
        self._closed = False
        self._reader = threading.Thread(target=self._read, name="log", daemon=True)
        self._reader.start()

    def take(self) -> bool:
        """Take in new pieces. Return whether there were any."""
        anything = False
        with suppress(queue.Empty):
            for _ in range(MOST_PIECES):
                piece = self._pieces.get_nowait()
                anything = True
                if piece is None:
                    self.lines = LogLines()
                else:
                    self.lines.add(piece)
        return anything

    def close(self) -> None:
        """Read no more."""
        self._closed = True
        self._transport.end_streams()
        with suppress(queue.Empty):
            while True:
                self._pieces.get_nowait()

    def _read(self) -> None:
        while not self._closed:
            try:
                for piece in Jobs(self._transport).logs(self._job_id, follow=True, tail=TAIL_LINES):
                    if self._closed:
                        return
                    self._pieces.put(piece)
                    self.told = ""
                self.told = "end of the log"
                return
            except NoServer as error:
                self.told = str(error)
            except CorralError as error:
                self.told = str(error)
                return
            time.sleep(_AGAIN_S)
            # The log opens at its end again, which includes the lines missed meanwhile.
            self._pieces.put(None)


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
