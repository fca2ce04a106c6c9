"""Waiting for jobs to end without holding a thread: who waits for what, and the bell that the ledger rings."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from corral.model.fact import Delta, JobChanged
from corral.model.job import TERMINAL_PHASES
from corral.model.view import View

LONGEST_WAIT_S = 30.0
"""A client that wants to wait longer asks again."""

LOOK_AGAIN_S = 2.0
"""The end of a job is rung for; a look now and then makes sure of it."""

_SOONEST_S = 0.005


class Watch:
    """One coroutine's interest in some jobs. Made by `EndSignal.watch`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the waiting coroutine; from any thread."""
        # The loop may have closed since the bell was looked up; then nobody waits any more.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._rung.set)

    async def rung(self, timeout_s: float) -> bool:
        """Whether it rang, or had rung since the last call, within `timeout_s`."""
        if not self._rung.is_set():
            try:
                await asyncio.wait_for(self._rung.wait(), timeout_s)
            except TimeoutError:
                return False
        self._rung.clear()
        return True


class EndSignal:
    """Rings for those who watch a job, or the array it belongs to, when it ends. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: dict[str, set[Watch]] = {}
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the server is stopping, so that nobody should wait on."""
        return self._closed

    def on_change(self, view: View, deltas: Sequence[Delta]) -> None:
        """A listener for `Ledger.subscribe`: rings for every job that these deltas end."""
        with self._lock:
            if not self._watches:
                return
            for delta in deltas:
                if isinstance(delta, JobChanged) and delta.changes.get("phase") in TERMINAL_PHASES:
                    for watch in self._watches.get(_family(delta.job_id), ()):
                        watch.ring()

    def close(self) -> None:
        """Send everyone home."""
        with self._lock:
            self._closed = True
            for watches in self._watches.values():
                for watch in watches:
                    watch.ring()

    @contextmanager
    def watch(self, job_ids: Sequence[str]) -> Iterator[Watch]:
        """A watch on these jobs and arrays, from the calling coroutine's loop."""
        watch = Watch()
        families = sorted({_family(job_id) for job_id in job_ids})
        with self._lock:
            for family in families:
                self._watches.setdefault(family, set()).add(watch)
        try:
            yield watch
        finally:
            with self._lock:
                for family in families:
                    watches = self._watches[family]
                    watches.discard(watch)
                    if not watches:
                        del self._watches[family]


async def wait_until(over: Callable[[], Awaitable[bool]], watch: Watch, signal: EndSignal, timeout_s: float) -> None:
    """Return once `over` says so, when the time is up, or when the server stops.

    It is asked again after each ring, but for at most a fifth of the time and not more often than every 5 ms, so that
    a thousand ends a second do not cost a thousand looks.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        began = time.monotonic()
        if await over():
            return
        now = time.monotonic()
        if now >= deadline or signal.closed:
            return
        if await watch.rung(min(deadline - now, LOOK_AGAIN_S)):
            await asyncio.sleep(max(_SOONEST_S, min(4 * (now - began), LOOK_AGAIN_S)))


class OpenJobs:
    """Which of many jobs and arrays is the first that has not ended: those before it are not looked at again."""

    def __init__(self, ids: Sequence[str], is_live: Callable[[str], bool]) -> None:
        self._ids = ids
        self._is_live = is_live
        self._first = 0

    def over(self) -> bool:
        """Whether every one has ended."""
        while self._first < len(self._ids):
            if self._is_live(self._ids[self._first]):
                return False
            self._first += 1
        return True


def _family(job_id: str) -> str:
    """What an array's parent and its elements have in common: P of P and of P_3."""
    return job_id.partition("_")[0]
