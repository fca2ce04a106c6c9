"""Time is a port: the server gets the system's clock, simulators and tests one that is set by hand."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for waiting."""

    def now(self) -> float:
        """Unix seconds with fractions; may jump when the host's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, from an unknown start."""
        ...


class SystemClock:
    """The host's clocks."""

    def now(self) -> float:
        """Unix seconds, `time.time()`."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC."""
        return time.monotonic()


class ManualClock:
    """A clock that stands still until it is told otherwise; safe between threads."""

    def __init__(self, now: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        """The time that was set."""
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        """Seconds advanced since the clock was made."""
        with self._lock:
            return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let both clocks run on by `seconds`."""
        with self._lock:
            self._now += seconds
            self._monotonic += seconds
