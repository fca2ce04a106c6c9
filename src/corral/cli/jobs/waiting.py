"""Show on standard error why a job waits, for as long as it waits."""

import re
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from corral.cli.screen import clipped, say, width
from corral.client import Client
from corral.core.model.errors import CorralError
from corral.core.model.placing.certainty import Certainty
from corral.formatting.times import clock_time

if TYPE_CHECKING:
    from corral.client import Explanation

QUIET_S = 0.3
"""Nothing is shown for a shorter wait."""

SPACING_S = 10.0
"""The least time between two full reasons, if the reason changes."""

_INTERVAL_S = 1.0
_LINE_START = "\r\033[2K"
_DURATION = r"<?\d+(?:\.\d+)?[smhdw](?: \d+[smhdw])?\b"


class ReasonLine:
    """Shows the full reason when it changes. On a terminal, a short line below it is updated in place."""

    def __init__(self) -> None:
        self._shown = ""
        self._shown_at = float("-inf")
        self._line = ""
        self._terminal = sys.stderr.isatty()

    def show(self, explanation: "Explanation") -> None:
        # A countdown is not a new reason, so durations are ignored in the comparison.
        gist, now = re.sub(_DURATION, "", explanation.reason), time.monotonic()
        if gist != self._shown and now - self._shown_at >= SPACING_S:
            self.clear()
            say(in_full(explanation))
            self._shown, self._shown_at = gist, now
        if self._terminal and self._line != (line := in_short(explanation)):
            self._line = line
            sys.stderr.write(_LINE_START + clipped(f"corral: {line}", width() - 1))
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the short line."""
        if self._line:
            sys.stderr.write(_LINE_START)
            sys.stderr.flush()
        self._line = ""


def in_full(explanation: "Explanation") -> str:
    """The full reason, with the job's id and the time at which it is expected to start."""
    word = "starts at the latest" if explanation.expected_start_is == Certainty.PROMISE else "expected"
    when = "" if explanation.expected_start is None else f", {word} at {clock_time(explanation.expected_start)}"
    return f"job {explanation.id}{when}: {explanation.reason}"


def in_short(explanation: "Explanation") -> str:
    """The state in a few words."""
    parts = [f"job {explanation.id} waits"]
    if explanation.expected_start is not None:
        promised = explanation.expected_start_is == Certainty.PROMISE
        parts.append(f"starts {'by' if promised else 'about'} {clock_time(explanation.expected_start)}")
    if explanation.starts_now_with:
        parts.append(f"with {explanation.starts_now_with} it would start now")
    return "; ".join(parts)


class Narrator:
    """Shows why a job waits, on its own thread and connection."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._line = ReasonLine()
        self._stop = threading.Event()
        # Reentrant: a signal handler may call `stop` while the same thread holds the lock.
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._tell, name="why", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Show nothing more, and clear the line."""
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
                    explanation = client.jobs.why(self._job_id)
                except CorralError:
                    return  # the code that waits for the job gets the same error and shows it
                with self._lock:
                    if self._stop.is_set() or explanation.phase != "PENDING":
                        self._line.clear()
                        return
                    if explanation.considered:
                        self._line.show(explanation)
                if self._stop.wait(_INTERVAL_S):
                    return
