"""Ends the jobs of an agent that its server has not called for long. The server may run them again elsewhere
meanwhile.
"""

import logging
import threading
import time
from collections.abc import Callable

from corral.core.model.units import format_duration

log = logging.getLogger(__name__)

_LOOKS = 20
"""The number of checks within the time that counts as isolation."""


class IsolationWatch:
    """Calls `end_all` with the reason when no call came for `after_s`. Only a new call lets this happen once more."""

    def __init__(self, after_s: float, end_all: Callable[[str], None]) -> None:
        self._after_s = after_s
        self._end_all = end_all
        self._called_s = time.monotonic()
        self._ended_call_s: float | None = None  # when the call came after which all was ended
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="isolation", daemon=True)

    def start(self) -> None:
        """Start to measure the time since the last call."""
        self._thread.start()

    def called(self) -> None:
        """Record a call of the server."""
        self._called_s = time.monotonic()

    def close(self) -> None:
        """Stop measuring."""
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.wait(self._after_s / _LOOKS):
            called_s = self._called_s
            # Compared by the time of the last call: a call that came and grew old between two checks must not be
            # overlooked.
            if time.monotonic() - called_s >= self._after_s and called_s != self._ended_call_s:
                reason = f"its node has not heard from its server for {format_duration(self._after_s)} (on_isolation)"
                log.warning("the server has not called for %s: what runs here is ended", format_duration(self._after_s))
                self._end_all(reason)
                self._ended_call_s = called_s
