"""Jobs for pods that others made, as the code that binds these pods needs them."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from corral.core.model.jobs.job import Job
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.jobs.submission import Submission


class PodJobs(Protocol):
    """Has pods of a cluster wait as jobs. Thread-safe."""

    def live(self) -> Sequence[Job]:
        """The jobs for pods that have not ended."""
        ...

    def find(self, job_id: str) -> Job | None:
        """Return a job in any phase, or None."""
        ...

    def ended(self, limit: int) -> Sequence[Job]:
        """Return at most `limit` of the last ended jobs, those for pods among them."""
        ...

    def submit(self, submission: Submission, pods: tuple[PodRef, ...], user: str) -> "Future[str]":
        """Let these pods wait as one job of a user, one member each. Resolves with its id, once on disk.

        Raises Refused, Forbidden, Conflict, LedgerFailed, directly or by the future.
        """
        ...

    def cancel(self, job_id: str, reason: str) -> None:
        """A pod of the job cannot run any more: end it, unless it has ended or is being stopped."""
        ...

    def why(self, job_id: str) -> str:
        """Why the job waits, in a sentence. Raises NotFound."""
        ...

    def follow(self, changed: Callable[[str], None]) -> None:
        """Call `changed` on the ledger's thread for each job whose phase has changed. It must return at once."""
        ...
