"""Threads for what may hang: every user gets some, and the rest wait."""

import asyncio
import threading

from corral.api.requests.user_threads import THREADS, THREADS_OF_A_USER, UserThreads
from corral.core.access.caller import Caller

PATIENCE_S = 60.0


def test_one_users_calls_that_hang_leave_threads_for_others() -> None:
    hangs, begun = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        begun.release()
        hangs.wait(PATIENCE_S)

    async def crowd() -> str:
        threads = UserThreads()
        hung = [asyncio.create_task(threads.run(Caller("ann"), hang)) for _ in range(2 * THREADS)]
        for _ in range(THREADS_OF_A_USER):
            assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE_S)
        answer = await asyncio.wait_for(threads.run(Caller("bob"), lambda: "an answer"), PATIENCE_S)
        assert not begun.acquire(blocking=False), "one user has no more threads than these"
        hangs.set()
        await asyncio.gather(*hung)
        return answer

    assert asyncio.run(crowd()) == "an answer"
