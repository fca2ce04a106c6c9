"""Turns of requests: a limited number at a time, and for each user. Waiting users take turns."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from corral.fair_queue import SERVER, FairQueue

whose_request: ContextVar[str] = ContextVar("whose_request", default=SERVER)
"""The user whose request the current task answers."""

SHORT_S = 0.1
"""A user does not rest after a turn of at most this length."""

LONGEST_REST_S = 1.0
"""The longest rest. A long turn may have waited for a disk or a node."""

ALONE_AFTER_S = 2.0
"""Nobody needs to rest if no other user has sent a request for this time."""


class RecentUsers:
    """Finds out when another user sent the last request. It stores the last requests of the last two users."""

    def __init__(self) -> None:
        self._last = (SERVER, -math.inf)
        self._before = (SERVER, -math.inf)

    def ask(self, user: str, at_s: float) -> None:
        """Record a request of this user."""
        if user != self._last[0]:
            self._before = self._last
        self._last = (user, at_s)

    def other_asked_at_s(self, user: str) -> float:
        """Return when another user sent the last request (the event loop's seconds); minus infinity if none did."""
        return (self._before if self._last[0] == user else self._last)[1]


_recent = RecentUsers()


def answer_for(user: str) -> None:
    """Set the user whose request the current task answers."""
    whose_request.set(user)
    _recent.ask(user, asyncio.get_running_loop().time())


class UserTurns:
    """Gives turns to users: at most `at_once` at a time, and `of_a_user` for each user. For one event loop.

    With `rests`, a user gets a long turn back only some time after its end, if other users send requests, too. So a
    user who takes one long turn after another leaves the server to the others for as long in between.
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
        """The number of requests that wait for a turn."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Wait for a turn of this user, and hold it while the context lasts."""
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
        """The rest of a user after a turn from `began_s` to `now_s`, in seconds."""
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
        """Give free turns to waiting users."""
        while (waiting := self._waiting.pop(lambda one: self._may_take(one[0]))) is not None:
            next_user, given = waiting
            # A user whose request was cancelled does not wait any more.
            if not given.cancelled():
                self._take(next_user)
                given.set_result(None)
