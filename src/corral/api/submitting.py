"""Passes submissions to the service without blocking the event loop."""

from collections.abc import Sequence
from functools import partial

from corral.access.caller import Caller
from corral.api.batch_results import BatchResults
from corral.api.user_threads import UserThreads
from corral.control.service import Service
from corral.control.submitting.file_findings import FileFindings
from corral.model.submission import Submission


class Submitter:
    """Submits on the event loop if that is quick, else on threads of its own.

    The files that a submission names are inspected, and a slow file server or a malicious user may delay that until it
    times out. So files are inspected on a thread, unless they were inspected a moment ago.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._threads = UserThreads()
        self._results = BatchResults()

    async def submit(self, submissions: Sequence[Submission], caller: Caller) -> tuple[str, ...]:
        """The ids of all jobs, once they are on disk. Raises as `Service.submit` does; then none was accepted."""
        if len(submissions) > 1 or any(submission.sweep is not None for submission in submissions):
            return await self._threads.run(caller, partial(self._service.submit, submissions, caller))
        findings = self._service.file_findings.cached(submissions, caller)
        if findings is None:
            findings = await self.inspect(submissions, caller)
        return await self._results.of(self._service.submit_inspected(submissions, caller, findings))

    async def inspect(self, submissions: Sequence[Submission], caller: Caller) -> tuple[FileFindings, ...]:
        """What the files of each submission tell, as far as the caller may read them."""
        return await self._threads.run(caller, partial(self._service.file_findings.inspect, submissions, caller))
