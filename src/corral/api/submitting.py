"""Passes submissions to the service without blocking the event loop."""

import asyncio
from collections.abc import Sequence

from anyio import CapacityLimiter, to_thread

from corral.access.caller import Caller
from corral.control.service import Service
from corral.control.submitting.file_findings import FileFindings
from corral.model.submission import Submission

_THREADS = 16
_THREADS_OF_A_USER = 4
"""A user whose files hang (NFS) leaves enough threads for everybody else."""


class Submitter:
    """Submits on the event loop if that is quick, else on threads of its own.

    The files that a submission names are inspected, and a slow file server or a malicious user may delay that until it
    times out. So files are inspected on a thread, unless they were inspected a moment ago.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._threads = CapacityLimiter(_THREADS)
        self._threads_of: dict[str, CapacityLimiter] = {}

    async def submit(self, submissions: Sequence[Submission], caller: Caller) -> tuple[str, ...]:
        """The ids of all jobs, once they are on disk. Raises as `Service.submit` does; then none was accepted."""
        if len(submissions) > 1:
            async with self._limit_of(caller):
                return await to_thread.run_sync(self._service.submit, submissions, caller, limiter=self._threads)
        findings = self._service.file_findings.cached(submissions, caller)
        if findings is None:
            findings = await self.inspect(submissions, caller)
        return await asyncio.wrap_future(self._service.submit_inspected(submissions, caller, findings))

    async def inspect(self, submissions: Sequence[Submission], caller: Caller) -> tuple[FileFindings, ...]:
        """What the files of each submission tell, as far as the caller may read them."""
        async with self._limit_of(caller):
            return await to_thread.run_sync(
                self._service.file_findings.inspect, submissions, caller, limiter=self._threads
            )

    def _limit_of(self, caller: Caller) -> CapacityLimiter:
        return self._threads_of.setdefault(caller.user, CapacityLimiter(_THREADS_OF_A_USER))
