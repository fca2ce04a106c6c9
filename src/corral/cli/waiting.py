"""Why a job waits, on standard error, for as long as it does."""

import re
import sys
import threading
import time
from types import TracebackType
from typing import Self

from corral.cli.screen import clipped, clock_time, say, width
from corral.client import Client, Explanation
from corral.model.certainty import Certainty
from corral.model.errors import CorralError

QUIET_S = 0.3
"""Nothing is said of a shorter wait."""

SPACING_S = 10.0
"""A reason that changes is told in full no more often."""

_INTERVAL_S = 1.0
_LINE_START = "\r\033[2K"
_DURATION = re.compile(r"<?\d+(?:\.\d+)?[smhdw](?: \d+[smhdw])?\b")


class ReasonLine:
    """Tells the reason in full when it is another one; a terminal has a short line below it, renewed in place."""

    def __init__(self) -> None:
        self._told = ""
        self._told_at = float("-inf")
        self._line = ""
        self._terminal = sys.stderr.isatty()

    def show(self, told: Explanation) -> None:
        # A countdown is no news: what passes by itself is left out of the comparison.
        gist, now = _DURATION.sub("", told.reason), time.monotonic()
        if gist != self._told and now - self._told_at >= SPACING_S:
            self.clear()
            say(in_full(told))
            self._told, self._told_at = gist, now
        if self._terminal and self._line != (line := in_short(told)):
            self._line = line
            sys.stderr.write(_LINE_START + clipped(f"corral: {line}", width() - 1))
            sys.stderr.flush()

    def clear(self) -> None:
        """Take the short line away."""
        if self._line:
            sys.stderr.write(_LINE_START)
            sys.stderr.flush()
        self._line = ""


def in_full(told: Explanation) -> str:
    """The whole reason, with the job's id and the time on the clock at which it is expected to start."""
    word = "starts at the latest" if told.expected_start_is == Certainty.PROMISE else "expected"
    when = "" if told.expected_start is None else f", {word} at {clock_time(told.expected_start)}"
    return f"job {told.id}{when}: {told.reason}"


def has_reason(told: Explanation) -> bool:
    """Whether there is one: a job that has just come, at the head of the queue, has not been looked at."""
    return bool(told.waited or told.obstacle) or (told.position or 1) > 1


def in_short(told: Explanation) -> str:
    """How it stands, in a few words."""
    parts = [f"job {told.id} waits"]
    if told.expected_start is not None:
        promised = told.expected_start_is == Certainty.PROMISE
        parts.append(f"starts {'by' if promised else 'about'} {clock_time(told.expected_start)}")
    if told.starts_now_with:
        parts.append(f"{told.starts_now_with} starts now")
    return "; ".join(parts)


class Narrator:
    """Tells why a job waits while its owner does something else, over a connection of its own."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._line = ReasonLine()
        self._stop = threading.Event()
        # Reentrant, for a signal may stop the telling while the same thread is about to.
        self._lock = threading.RLock()
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
                    if has_reason(told):
                        self._line.show(told)
                if self._stop.wait(_INTERVAL_S):
                    return
