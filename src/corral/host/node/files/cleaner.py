"""Cleans up after launches, when nothing more urgent is to be done.

Removing a directory can take longer than all other work for a short job, because a journalling file system makes it
wait for the flushes of others. The next agent finds all that is left when an agent ends.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable

from corral.core.model.errors import CorralError

log = logging.getLogger(__name__)

PAUSE_S = 0.05
MOST_WAITING = 5_000

Step = Callable[[], None]


class Cleaner:
    """Cleans up on a thread of its own, in pauses of the work, or when too much waits to be cleaned up."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._busy_until = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="cleaner", daemon=True)

    def start(self) -> None:
        """Begin to clean."""
        self._thread.start()

    def add(self, step: Step) -> None:
        """Have it done. It may raise CorralError, which the next agent's cleaner may do better with."""
        self._waiting.put(step)

    def put_off(self) -> None:
        """Something more urgent is being done."""
        self._busy_until = time.monotonic() + PAUSE_S

    def close(self) -> None:
        """Stop, and leave the rest to the next agent."""
        self._closing = True
        self._waiting.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while (step := self._waiting.get()) is not None and not self._closing:
            while self._busy() and not self._closing:
                time.sleep(PAUSE_S)
            try:
                step()
            except CorralError as error:
                log.warning("the remains of a job are not cleaned up: %s", error)

    def _busy(self) -> bool:
        return time.monotonic() < self._busy_until and self._waiting.qsize() < MOST_WAITING
