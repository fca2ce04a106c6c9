"""Requests that wait for jobs to end, without a thread each.

`EndSignal` listens to the ledger and wakes the requests that wait for a job that has just ended.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from corral.core.model.fact import Delta, JobChanged
from corral.core.model.jobs.phase import TERMINAL_PHASES
from corral.core.model.view import View

LONGEST_WAIT_S = 30.0
"""The longest time that one request waits. A client that wants to wait longer sends another request."""

LOOK_AGAIN_S = 2.0
"""A wake-up may be lost, so waiting requests check their jobs at least this often."""

_SHORTEST_PAUSE_S = 0.005


class EndWaiter:
    """A coroutine that waits for some jobs to end. Made by `EndSignal.waiter`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._called = False

    def wake(self) -> None:
        """Wake the waiting coroutine. Safe from any thread."""
        # One wake-up is enough until the coroutine runs: under load, many jobs end in between.
        if self._called:
            return
        self._called = True
        # The loop may have closed after this waiter was looked up. Then nobody waits any more.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    async def woken(self, timeout_s: float) -> bool:
        """Whether `wake` was called since the last call of this, or is within `timeout_s`."""
        if not self._woken.is_set():
            try:
                await asyncio.wait_for(self._woken.wait(), timeout_s)
            except TimeoutError:
                return False
        # The order matters: a `wake` in between is not lost, because the loop runs its callback later.
        self._called = False
        self._woken.clear()
        return True


class EndSignal:
    """Wakes the requests that wait for a job, or for its array, when it ends. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: dict[str, set[EndWaiter]] = {}
        self._closed = False
        self._at_close: list[Callable[[], None]] = []

    @property
    def closed(self) -> bool:
        """Whether the server is stopping. Then no request should wait any longer."""
        return self._closed

    def on_change(self, view: View, deltas: Sequence[Delta]) -> None:
        """Wake the requests that wait for a job that these deltas end. A listener for `Ledger.subscribe`."""
        with self._lock:
            if not self._waiters:
                return
            for delta in deltas:
                if isinstance(delta, JobChanged) and delta.changes.get("phase") in TERMINAL_PHASES:
                    for waiter in self._waiters.get(_family(delta.job_id), ()):
                        waiter.wake()

    def when_closed(self, call: Callable[[], None]) -> None:
        """Register a function to call when the server stops. It must return at once."""
        with self._lock:
            self._at_close.append(call)

    def close(self) -> None:
        """Wake all waiting requests, because the server stops."""
        with self._lock:
            self._closed = True
            for call in self._at_close:
                call()
            for waiters in self._waiters.values():
                for waiter in waiters:
                    waiter.wake()

    @contextmanager
    def waiter(self, job_ids: Sequence[str]) -> Iterator[EndWaiter]:
        """A waiter for these jobs and arrays, on the calling coroutine's loop."""
        waiter = EndWaiter()
        families = sorted({_family(job_id) for job_id in job_ids})
        with self._lock:
            for family in families:
                self._waiters.setdefault(family, set()).add(waiter)
        try:
            yield waiter
        finally:
            with self._lock:
                for family in families:
                    waiters = self._waiters[family]
                    waiters.discard(waiter)
                    if not waiters:
                        del self._waiters[family]


class InputNotices:
    """Wakes the followers of a job's log when the job is given input, because it may answer at once. For one loop."""

    def __init__(self) -> None:
        self._followers: dict[str, set[EndWaiter]] = {}

    @contextmanager
    def following(self, job_id: str, waiter: EndWaiter) -> Iterator[None]:
        """Also wake this waiter whenever the job is given input."""
        self._followers.setdefault(job_id, set()).add(waiter)
        try:
            yield
        finally:
            followers = self._followers[job_id]
            followers.discard(waiter)
            if not followers:
                del self._followers[job_id]

    def given(self, job_id: str) -> None:
        """Wake the followers of this job, because it was given input."""
        for waiter in self._followers.get(job_id, ()):
            waiter.wake()


async def wait_until(
    done: Callable[[], Awaitable[bool]], waiter: EndWaiter, signal: EndSignal, timeout_s: float
) -> None:
    """Return when `done` returns True, when the time is up, or when the server stops.

    `done` is called again after each wake-up. It takes at most a fifth of the time, and is called at most every 5 ms.
    So a thousand jobs that end in one second do not cause a thousand calls.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        began = time.monotonic()
        if await done():
            return
        now = time.monotonic()
        if now >= deadline or signal.closed:
            return
        if await waiter.woken(min(deadline - now, LOOK_AGAIN_S)):
            await asyncio.sleep(max(_SHORTEST_PAUSE_S, min(4 * (now - began), LOOK_AGAIN_S)))


class EndedJobs:
    """Whether all of many jobs and arrays have ended. Jobs that were found to have ended are not checked again."""

    def __init__(self, ids: Sequence[str], is_live: Callable[[str], bool]) -> None:
        self._ids = ids
        self._is_live = is_live
        self._first = 0

    def all(self) -> bool:
        """Whether every job and array has ended."""
        while self._first < len(self._ids):
            if self._is_live(self._ids[self._first]):
                return False
            self._first += 1
        return True


def _family(job_id: str) -> str:
    """The id that an array and its elements share: "17" for "17" and for "17_3"."""
    return job_id.partition("_")[0]
