"""Steps that wait for slow programs, off the caller's thread: in order per key, several keys at once."""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

from corral.core.model.errors import CorralError

log = logging.getLogger(__name__)

WORKERS = 8
"""The number of steps done at once, each on a thread that is started when first needed."""

_CLOSE_S = 5.0

Step = Callable[[], None]


class WorkerQueues:
    """Runs steps on threads. Steps with the same key, such as a device's UUID, never run at the same time."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Step]] = {}
        self._ready: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._closing = False

    def put(self, key: str, step: Step) -> None:
        """Run a step after the earlier ones under this key. A CorralError that it raises is logged."""
        with self._lock:
            begins = key not in self._waiting
            self._waiting.setdefault(key, deque()).append(step)
            if begins:
                self._ready.put(key)
                if len(self._threads) < WORKERS:
                    self._add_worker()

    def close(self) -> None:
        """Begin no more steps, and wait a while for running ones; the next agent finds the rest."""
        self._closing = True
        deadline = time.monotonic() + _CLOSE_S
        for _ in self._threads:
            self._ready.put(None)
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))

    def _add_worker(self) -> None:
        thread = threading.Thread(target=self._work, name=f"devices-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (key := self._ready.get()) is not None and not self._closing:
            with self._lock:
                step = self._waiting[key][0]
            try:
                step()
            except CorralError as error:
                log.warning("%s", error)
            with self._lock:
                self._waiting[key].popleft()
                if self._waiting[key]:
                    self._ready.put(key)
                else:
                    del self._waiting[key]
