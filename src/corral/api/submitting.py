"""Handing submissions to the service without letting one of them hold up the loop."""

import asyncio
import time
from collections.abc import Sequence

from anyio import CapacityLimiter, to_thread

from corral.access.caller import Caller
from corral.control.service import Service
from corral.model.submission import Submission

TRUST_S = 5.0
_THREADS = 16
_REMEMBERED = 1000


class Submitter:
    """Submits on the loop where that is quick, else on threads of its own.

    The service looks whether the working directory is there, and a file server may let it wait for ever. A directory
    that was found a moment ago is taken to answer, and so are the files of a command that was inspected a moment ago;
    any other is looked for on a thread, of which hanging ones leave enough to everybody else.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._threads = CapacityLimiter(_THREADS)
        self._found_at: dict[str, float] = {}

    async def submit(self, submissions: Sequence[Submission], caller: Caller) -> tuple[str, ...]:
        """The ids of all, once they are on disk. Raises as `Service.submit` does, and then none is accepted."""
        if len(submissions) == 1 and self._is_quick(submissions[0], caller):
            return await asyncio.wrap_future(self._service.submit_future(submissions, caller))
        ids = await to_thread.run_sync(self._service.submit, submissions, caller, limiter=self._threads)
        if len(self._found_at) >= _REMEMBERED:
            self._found_at.clear()
        self._found_at[submissions[0].workdir] = time.monotonic()
        return ids

    def _is_quick(self, submission: Submission, caller: Caller) -> bool:
        found_s = time.monotonic() - self._found_at.get(submission.workdir, 0.0)
        return found_s < TRUST_S and self._service.is_quick(submission, caller)
