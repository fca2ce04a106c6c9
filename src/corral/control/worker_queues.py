"""Deeds that wait for slow programs, off the caller's thread: a lane's one after the other, several lanes at once."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from corral.model.errors import CorralError

WORKERS = 8
"""So many deeds are done at once, each on a thread that is started when it is first needed."""

_CLOSE_S = 5.0

Deed = Callable[[], None]


class WorkerQueues:
    """A lane, such as a device, is whatever must not be worked on twice at a time. When `closing`, none is begun."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[Deed, Future[None]]]] = {}
        self._ready: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.closing = False

    def put(self, lane: str, deed: Deed) -> "Future[None]":
        """Have it done after what the lane was given before. The future holds the CorralError that it raised."""
        future: Future[None] = Future()
        with self._lock:
            begins = lane not in self._waiting
            self._waiting.setdefault(lane, deque()).append((deed, future))
            if begins:
                self._ready.put(lane)
                if len(self._threads) < WORKERS:
                    self._add_worker()
        return future

    def close(self) -> None:
        """Begin no more, and wait a while for what was begun; whoever comes next finds what it left."""
        self.closing = True
        deadline = time.monotonic() + _CLOSE_S
        for _ in self._threads:
            self._ready.put(None)
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))

    def _add_worker(self) -> None:
        thread = threading.Thread(target=self._work, name=f"lane-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (lane := self._ready.get()) is not None and not self.closing:
            deed, future = self._waiting[lane][0]
            failure = None
            try:
                deed()
            except CorralError as error:
                failure = error
            with self._lock:
                self._waiting[lane].popleft()
                if self._waiting[lane]:
                    self._ready.put(lane)
                else:
                    del self._waiting[lane]
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)
