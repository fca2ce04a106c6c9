"""Threads for what may take long, such as a read on a host that hangs: one user gets only some of them."""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from corral.access.caller import Caller

T = TypeVar("T")

THREADS = 16
THREADS_OF_A_USER = 4
"""A user whose files hang (NFS), or whose node does, leaves enough threads for everybody else."""


class UserThreads:
    """At most THREADS calls at a time, and THREADS_OF_A_USER for each user; the others wait without a thread."""

    def __init__(self) -> None:
        self._all = CapacityLimiter(THREADS)
        self._of_user: dict[str, CapacityLimiter] = {}

    async def run(self, caller: Caller, call: Callable[[], T]) -> T:
        """What the call returns, or raises."""
        async with self._of_user.setdefault(caller.user, CapacityLimiter(THREADS_OF_A_USER)):
            return await to_thread.run_sync(call, limiter=self._all)
