"""The log of a server or an agent, with one line for each event."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from corral.core.model.printable import printable

LINES_OF_A_PLACE = 300
PER_S = 60.0
"""The most lines that one place of the code writes in this time. Users can cause events in a loop."""


class FewOfAKind(logging.Filter):
    """Drops events that one place of the code logs too often. Its next written event says how many were dropped."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._began_s: dict[tuple[str, int], float] = {}
        self._count: dict[tuple[str, int], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place, now_s = (record.pathname, record.lineno), self._monotonic()
        with self._lock:
            if now_s - self._began_s.get(place, now_s - PER_S) >= PER_S:
                self._began_s[place] = now_s
                record.left_out = max(0, self._count.get(place, 0) - LINES_OF_A_PLACE)
                self._count[place] = 0
            self._count[place] += 1
            return self._count[place] <= LINES_OF_A_PLACE


class LogFormat(logging.Formatter):
    """Makes text from users (a name, a path) safe: it cannot start a new line or control a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - a name of the standard library's
        left_out = getattr(record, "left_out", 0)
        more = f" ({left_out:,} more like this were left out before)" if left_out else ""
        record.message = printable(record.message) + more
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """The traceback, indented: none of its lines looks like an event."""
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).splitlines())


def log_to_stderr() -> None:
    """Log from this process to standard error, from level INFO on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormat("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(FewOfAKind())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
