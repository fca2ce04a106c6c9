"""Pass submissions to the service without blocking the event loop."""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from corral.api.requests.request_turns import UserTurns
from corral.api.requests.user_threads import UserThreads
from corral.core.access.caller import Caller
from corral.core.control.service import Service
from corral.core.control.submitting.file_findings import FileFindings
from corral.core.control.submitting.new_jobs import jobs_needed
from corral.core.model.jobs.submission import Submission

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


JOBS_ON_THE_LOOP = 1
"""A larger number of jobs is numbered and checked on a thread: on the event loop, all other requests would wait."""

MANY_OF_A_USER = 1
"""The most submissions of more than JOBS_ON_THE_LOOP jobs that one user may have in progress at once."""

SUBMITS = 128
SUBMITS_OF_A_USER = 32
"""The most submissions that wait for the disk together, which is as fast as one. Then other users have a turn."""


class Submitter:
    """Submits on the event loop if that is quick, else on threads of its own.

    The files that a submission names must be inspected. A slow file server or a malicious user may delay this until a
    timeout. So a thread inspects the files, unless they were inspected a moment ago.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._threads = UserThreads()
        self._threads_of_many = UserThreads(MANY_OF_A_USER)
        self._turns = UserTurns(SUBMITS, SUBMITS_OF_A_USER)
        self._results = BatchResults()

    async def submit(self, submissions: Sequence[Submission], caller: Caller) -> tuple[str, ...]:
        """The ids of all jobs, once they are on disk. Raises as `Service.submit` does; then no job was accepted."""
        if sum(map(jobs_needed, submissions)) > JOBS_ON_THE_LOOP or any(one.sweep is not None for one in submissions):
            return await self._threads_of_many.run(caller, partial(self._service.submit, submissions, caller))
        async with self._turns.turn(caller.user):
            findings = self._service.file_findings.cached(submissions, caller)
            if findings is None:
                findings = await self.inspect(submissions, caller)
            return await self._results.of(self._service.submit_inspected(submissions, caller, findings))

    async def inspect(self, submissions: Sequence[Submission], caller: Caller) -> tuple[FileFindings, ...]:
        """The findings in the files of each submission, as far as the caller may read them."""
        return await self._threads.run(caller, partial(self._service.file_findings.inspect, submissions, caller))
