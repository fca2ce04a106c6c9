"""Cleans up after launches when nothing more urgent is to be done.

Removing a directory can take longer than all other work for a short job, because a journalling file system makes it
wait for the flushes of others. If an agent ends, the next agent finds what is left to remove.
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

Step = Callable[[], object]


class Cleaner:
    """Runs clean-up steps on a thread of its own: in pauses of other work, or when too many steps wait."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._busy_until = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="cleaner", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def add(self, step: Step) -> None:
        """Queue a step. The step may raise CorralError: the next agent then tries it again."""
        self._waiting.put(step)

    def put_off(self) -> None:
        """Delay the steps for a moment, because more urgent work is being done."""
        self._busy_until = time.monotonic() + PAUSE_S

    def close(self) -> None:
        """Stop, and leave the remaining steps to the next agent."""
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
