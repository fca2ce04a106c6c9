"""Pass submissions to the service without blocking the event loop."""

from collections.abc import Sequence
from functools import partial

from corral.api.requests.batch_results import BatchResults
from corral.api.requests.user_threads import UserThreads
from corral.api.requests.user_turns import UserTurns
from corral.core.access.caller import Caller
from corral.core.control.service import Service
from corral.core.control.submitting.file_findings import FileFindings
from corral.core.control.submitting.new_jobs import jobs_needed
from corral.core.model.jobs.submission import Submission

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
