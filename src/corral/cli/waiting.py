"""One line on standard error that says why a job waits, for as long as it does."""

import sys
import threading
from types import TracebackType
from typing import Self

from corral.cli.screen import clipped, say, width
from corral.client import Client, Explanation
from corral.model.errors import CorralError

QUIET_S = 0.3
"""Nothing is said of a shorter wait."""

_INTERVAL_S = 1.0
_LINE_START = "\r\033[2K"


class ReasonLine:
    """Says the reason whenever it is another one: on a terminal in place, else on a line of its own."""

    def __init__(self) -> None:
        self._shown = ""
        self._terminal = sys.stderr.isatty()

    def show(self, told: Explanation) -> None:
        if told.reason == self._shown:
            return
        self._shown = told.reason
        if self._terminal:
            sys.stderr.write(_LINE_START + clipped(f"corral: {told.reason}", width() - 1))
            sys.stderr.flush()
        else:
            say(told.reason)

    def clear(self) -> None:
        if self._terminal and self._shown:
            sys.stderr.write(_LINE_START)
            sys.stderr.flush()
        self._shown = ""


class Narrator:
    """Tells why a job waits while its owner does something else, over a connection of its own."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._line = ReasonLine()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._tell, name="why", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Say no more, and leave the line clean for what comes."""
        if not self._stop.is_set():
            with self._lock:
                self._stop.set()
                self._line.clear()

    def _tell(self) -> None:
        if self._stop.wait(QUIET_S):
            return
        with Client() as client:
            while True:
                try:
                    told = client.jobs.why(self._job_id)
                except CorralError:
                    return  # whoever waits for the job learns of it, and says so
                with self._lock:
                    if self._stop.is_set() or told.phase != "PENDING":
                        self._line.clear()
                        return
                    self._line.show(told)
                if self._stop.wait(_INTERVAL_S):
                    return
