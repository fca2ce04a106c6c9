"""Runs a check again and again, on a thread of its own."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from corral.core.model.errors import CorralError

log = logging.getLogger(__name__)

_TOLD_AGAIN_S = 600.0
"""The interval of log lines while each round fails with the same error as the round before."""


class Patrol:
    """Calls `look` at intervals. If a round fails with a CorralError, the error is logged and the rounds go on.

    A `vital` patrol decides about jobs. An unexpected error ends its thread and the server, because a server without
    that patrol would give wrong answers. Another patrol logs the error, counts it in `failures` by its name, and goes
    on. The first round is `at_once`, or after an interval.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[], None],
        interval_s: float,
        *,
        vital: bool = True,
        at_once: bool = False,
        failures: Counter[str] | None = None,
    ) -> None:
        self.name = name
        self._look = look
        self._interval_s = interval_s
        self._vital = vital
        self._at_once = at_once
        self._failures = Counter[str]() if failures is None else failures
        self._told: tuple[str, float] | None = None
        self._trouble: str | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        if not vital:
            # Begin at 0, because a counter that begins with 1 shows no increase.
            self._failures[name] += 0

    @property
    def trouble(self) -> str | None:
        """The last unexpected error, None after a successful round. Safe on any thread."""
        return self._trouble

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the current round. Waits for it at most 5 s."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        wait_s = 0.0 if self._at_once else self._interval_s
        while not self._closing.wait(wait_s):
            wait_s = self._interval_s
            try:
                self._look()
                self._trouble = None
            except CorralError as error:
                log.error("%s: %s", self.name, error)
            except Exception as error:
                if self._vital:
                    raise
                self._note(error)

    def _note(self, error: Exception) -> None:
        self._failures[self.name] += 1
        self._trouble = f"a round of {self.name} failed: {type(error).__name__}: {error!s:.200}"
        now = time.monotonic()
        if self._told is None or self._told[0] != self._trouble or now - self._told[1] >= _TOLD_AGAIN_S:
            self._told = self._trouble, now
            log.error("%s; it goes on (please report this)", self._trouble, exc_info=error)
