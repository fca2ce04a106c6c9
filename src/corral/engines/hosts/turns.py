"""Turns for what many threads begin at once, so that the machine has a little of it at a time."""

import threading
import time


class SpacedTurns:
    """Each turn is `apart_s` seconds after the one before it. Nothing that takes long holds up the next turn."""

    def __init__(self, apart_s: float) -> None:
        self._apart_s = apart_s
        self._lock = threading.Lock()
        self._next = float("-inf")

    def take(self) -> float:
        """Take the next turn. Return the seconds until then."""
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._apart_s
            return turn - now
