"""Threads for slow work, such as reading the ledger, or a file on a host that hangs. Each user gets only some."""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from corral.api.requests.request_turns import UserTurns, whose_request
from corral.core.access.caller import Caller

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 16
THREADS_OF_A_USER = 4
"""The most threads of one user. If the files (NFS) or the node of a user hang, enough threads are left for the others.
Computing threads are limited, too: each of them makes the others wait for Python's lock.
"""


class UserThreads:
    """Runs calls on threads: at most THREADS at a time, and `of_a_user` for each user. Calls that wait hold no
    thread.
    """

    def __init__(self, of_a_user: int = THREADS_OF_A_USER) -> None:
        self._limiter = CapacityLimiter(THREADS)
        self._turns = UserTurns(THREADS, of_a_user, rests=True)

    async def run(self, caller: Caller, call: Callable[[], T]) -> T:
        """Return the result of the call, or raise its error."""
        return await self._run(caller.user, call)

    async def _run(self, user: str, call: Callable[[], T]) -> T:
        async with self._turns.turn(user):
            return await to_thread.run_sync(call, limiter=self._limiter)


_WORKERS = UserThreads()


async def on_worker(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of the call, or raise its error. It runs on one of the threads that answer requests."""
    return await _WORKERS._run(whose_request.get(), partial(call, *args, **kwargs))
