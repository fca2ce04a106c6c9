"""Pass the results of another thread's batches to the event loop: one wake-up for each batch."""

import asyncio
from collections import deque
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class BatchResults:
    """Waits on the event loop for futures that a thread resolves many at a time, as the ledger's thread does.

    `asyncio.wrap_future` would wake the loop for each future. Each wake-up is a system call, after which that thread
    waits for its turn.
    """

    def __init__(self) -> None:
        self._arrived: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._waking = False

    async def of(self, future: "Future[T]") -> T:
        """Return the result of the future, or raise its error. If the waiting task is cancelled, cancel the future."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(lambda done: self._arrive(loop, waiting, done))
        try:
            return await waiting
        except asyncio.CancelledError:
            future.cancel()
            raise

    def _arrive(self, loop: asyncio.AbstractEventLoop, waiting: "asyncio.Future[T]", done: "Future[T]") -> None:
        self._arrived.append((waiting, done))
        # Results that arrive before the loop resets `_waking` are passed on together with the first one.
        if not self._waking and not loop.is_closed():
            self._waking = True
            loop.call_soon_threadsafe(self._pass_on)

    def _pass_on(self) -> None:
        self._waking = False
        while self._arrived:
            waiting, done = self._arrived.popleft()
            if waiting.done():
                continue
            if done.cancelled():
                waiting.cancel()
            elif (error := done.exception()) is not None:
                waiting.set_exception(error)
            else:
                waiting.set_result(done.result())
