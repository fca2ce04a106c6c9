"""Turns of requests: so many at a time, of one user so many; who waits for a turn gets one as users take turns."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from corral.fair_queue import SERVER, FairQueue

whose_request: ContextVar[str] = ContextVar("whose_request", default=SERVER)
"""The user whose request the running task answers."""


class UserTurns:
    """At most `at_once` at a time, and `of_a_user` of them for each user. For one event loop."""

    def __init__(self, at_once: int, of_a_user: int) -> None:
        self._at_once = at_once
        self._of_a_user = of_a_user
        self._taken: Counter[str] = Counter()
        self._all_taken = 0
        self._waiting: FairQueue[tuple[str, asyncio.Future[None]]] = FairQueue()

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """A turn of this user, once there is one."""
        if self._may_take(user):
            self._take(user)
        else:
            await self._wait(user)
        try:
            yield
        finally:
            self._give_back(user)

    async def _wait(self, user: str) -> None:
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(user, (user, given))
        try:
            await given
        except asyncio.CancelledError:
            if given.cancelled():
                self._waiting.discard(user, (user, given))
            else:
                self._give_back(user)
            raise

    def _may_take(self, user: str) -> bool:
        return self._all_taken < self._at_once and self._taken[user] < self._of_a_user

    def _take(self, user: str) -> None:
        self._taken[user] += 1
        self._all_taken += 1

    def _give_back(self, user: str) -> None:
        self._taken[user] -= 1
        self._all_taken -= 1
        if not self._taken[user]:
            del self._taken[user]
        while (waiting := self._waiting.pop(lambda one: self._may_take(one[0]))) is not None:
            next_user, given = waiting
            # Who has left does not wait any more.
            if not given.cancelled():
                self._take(next_user)
                given.set_result(None)
