"""Runs calls that may never return: a driver call can hang in the kernel, where nothing can end it."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from corral.core.model.errors import BackendFailed

T = TypeVar("T")

MAX_HUNG = 4
"""The most threads that may hang at once. At this number no thread is started until one returns."""


class CallHung(BackendFailed):
    """The driver has not answered in time. The call may still be running; its result will be dropped."""


class DriverThread:
    """A thread that runs calls one after another, and is replaced when a call does not return.

    A call is given up `give_up_s` after it began. Its thread ends if the call returns later. Thread-safe.
    """

    def __init__(self, give_up_s: float) -> None:
        self._give_up_s = give_up_s
        self._lock = threading.Lock()
        self._hung: list[_Worker] = []
        self._worker: _Worker | None = None

    def run(self, call: Callable[[], T], timeout_s: float) -> T:
        """Return the result of `call`, or raise its error. Raises CallHung after `timeout_s`."""
        request = _Request(call)
        self._free_worker().requests.put(request)
        if not request.done.wait(timeout_s):
            request.wanted = False
            raise CallHung(f"the driver has not answered for {timeout_s:.3g} s")
        if request.error is not None:
            raise request.error
        result: T = request.result
        return result

    def close(self) -> None:
        """Let the thread end after its current call."""
        with self._lock:
            if self._worker is not None:
                self._worker.requests.put(None)
                self._worker = None

    def _free_worker(self) -> "_Worker":
        with self._lock:
            worker = self._worker
            if worker is None or not worker.thread.is_alive():
                # A forked process has no threads except the one that forked.
                worker = self._worker = _Worker()
            busy_s = worker.busy_s()
            if busy_s >= self._give_up_s:
                self._hung = [hung for hung in self._hung if hung.thread.is_alive()]
                if len(self._hung) + 1 >= MAX_HUNG:
                    raise CallHung(f"the driver does not answer: {MAX_HUNG} calls hang")
                worker.requests.put(None)
                self._hung.append(worker)
                worker = self._worker = _Worker()
            return worker


class _Request(Generic[T]):
    def __init__(self, call: Callable[[], T]) -> None:
        self.call = call
        self.done = threading.Event()
        self.wanted = True
        self.result: Any = None
        self.error: BaseException | None = None


class _Worker:
    def __init__(self) -> None:
        self.requests: queue.SimpleQueue[_Request[Any] | None] = queue.SimpleQueue()
        self._busy_since: float | None = None
        self.thread = threading.Thread(target=self._work, name="driver-calls", daemon=True)
        self.thread.start()

    def busy_s(self) -> float:
        """Return the seconds since the current call began, 0 if there is none."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    def _work(self) -> None:
        while (request := self.requests.get()) is not None:
            if not request.wanted:
                continue
            self._busy_since = time.monotonic()
            try:
                request.result = request.call()
            except BaseException as error:
                request.error = error
            self._busy_since = None
            request.done.set()
