"""Turns of requests: so many at a time, of one user so many; who waits for a turn gets one as users take turns."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from corral.fair_queue import SERVER, FairQueue

whose_request: ContextVar[str] = ContextVar("whose_request", default=SERVER)
"""The user whose request the running task answers."""

SHORT_S = 0.1
"""No user rests after a turn that took no longer."""

LONGEST_REST_S = 1.0
"""No user rests longer: what took its time may have waited for a disk or a node."""

ALONE_AFTER_S = 2.0
"""So long after the last request of another user nobody needs to rest."""


class RecentUsers:
    """When somebody other than a given user asked last: of two users who asked last that is known."""

    def __init__(self) -> None:
        self._last = (SERVER, -math.inf)
        self._before = (SERVER, -math.inf)

    def ask(self, user: str, at_s: float) -> None:
        """Note a request of this user's."""
        if user != self._last[0]:
            self._before = self._last
        self._last = (user, at_s)

    def other_asked_at_s(self, user: str) -> float:
        """When anybody else asked last; minus infinity where nobody did."""
        return (self._before if self._last[0] == user else self._last)[1]


_recent = RecentUsers()


def answer_for(user: str) -> None:
    """Say whose request the running task answers."""
    whose_request.set(user)
    _recent.ask(user, asyncio.get_running_loop().time())


class UserTurns:
    """At most `at_once` at a time, and `of_a_user` of them for each user. For one event loop.

    With `rests` a user has a long turn back only some time after its end, where others ask, too: who takes one long
    turn after the other leaves the server to them for as long in between.
    """

    def __init__(self, at_once: int, of_a_user: int, *, rests: bool = False) -> None:
        self._at_once = at_once
        self._of_a_user = of_a_user
        self._rests = rests
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
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            yield
        finally:
            self._all_taken -= 1
            rest_s = self._rest_s(user, began_s, loop.time())
            if rest_s > 0:
                loop.call_later(rest_s, self._give_back, user)
                self._pass_on()
            else:
                self._give_back(user)

    def _rest_s(self, user: str, began_s: float, now_s: float) -> float:
        """How long a user rests after a turn that began then and ends now."""
        took_s = now_s - began_s
        alone = now_s - _recent.other_asked_at_s(user) > ALONE_AFTER_S
        return 0.0 if not self._rests or alone or took_s <= SHORT_S else min(took_s, LONGEST_REST_S)

    async def _wait(self, user: str) -> None:
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(user, (user, given))
        try:
            await given
        except asyncio.CancelledError:
            if given.cancelled():
                self._waiting.discard(user, (user, given))
            else:
                self._all_taken -= 1
                self._give_back(user)
            raise

    def _may_take(self, user: str) -> bool:
        return self._all_taken < self._at_once and self._taken[user] < self._of_a_user

    def _take(self, user: str) -> None:
        self._taken[user] += 1
        self._all_taken += 1

    def _give_back(self, user: str) -> None:
        self._taken[user] -= 1
        if not self._taken[user]:
            del self._taken[user]
        self._pass_on()

    def _pass_on(self) -> None:
        """Give turns to those who wait, as far as there are any."""
        while (waiting := self._waiting.pop(lambda one: self._may_take(one[0]))) is not None:
            next_user, given = waiting
            # Who has left does not wait any more.
            if not given.cancelled():
                self._take(next_user)
                given.set_result(None)
