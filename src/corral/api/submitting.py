"""Handing submissions to the service without letting one of them hold up the loop."""

import asyncio
from collections.abc import Sequence

from anyio import CapacityLimiter, to_thread

from corral.access.caller import Caller
from corral.control.service import Service
from corral.control.submitting.file_findings import FileFindings
from corral.model.submission import Submission

_THREADS = 16
_THREADS_OF_A_USER = 4
"""Whose files hang leaves enough threads to everybody else."""


class Submitter:
    """Submits on the loop where that is quick, else on threads of its own.

    What a submission names is looked at, and a file server, or a user who means it, may let that wait until it is given
    up. What was seen a moment ago is taken to hold; anything else is looked at on a thread.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._threads = CapacityLimiter(_THREADS)
        self._threads_of: dict[str, CapacityLimiter] = {}

    async def submit(self, submissions: Sequence[Submission], caller: Caller) -> tuple[str, ...]:
        """The ids of all, once they are on disk. Raises as `Service.submit` does, and then none is accepted."""
        if len(submissions) > 1:
            async with self._limit_of(caller):
                return await to_thread.run_sync(self._service.submit, submissions, caller, limiter=self._threads)
        findings = self._service.file_findings.cached(submissions, caller)
        if findings is None:
            findings = await self.inspect(submissions, caller)
        return await asyncio.wrap_future(self._service.submit_inspected(submissions, caller, findings))

    async def inspect(self, submissions: Sequence[Submission], caller: Caller) -> tuple[FileFindings, ...]:
        """What the caller may see of the files of each submission."""
        async with self._limit_of(caller):
            return await to_thread.run_sync(
                self._service.file_findings.inspect, submissions, caller, limiter=self._threads
            )

    def _limit_of(self, caller: Caller) -> CapacityLimiter:
        return self._threads_of.setdefault(caller.user, CapacityLimiter(_THREADS_OF_A_USER))
