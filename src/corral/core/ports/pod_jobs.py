"""Jobs for pods that others created, as the code that binds these pods needs them."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.jobs.submission import Submission
from corral.core.ports.images import ContainerProgram
from corral.core.ports.job_devices import JobDevices


class PodJobs(Protocol):
    """Queues pods of a cluster as jobs. Thread-safe."""

    @property
    def devices(self) -> JobDevices:
        """The devices of all jobs, also of those whose pods Corral made."""
        ...

    def live(self) -> Sequence[Job]:
        """Return the jobs for pods that have not ended."""
        ...

    def find(self, job_id: str) -> Job | None:
        """Return a job in any phase, or None."""
        ...

    def ended(self, limit: int) -> Sequence[Job]:
        """Return the pod jobs among the last `limit` jobs that ended."""
        ...

    def image_known(self, program: ContainerProgram, user: str) -> bool:
        """Return whether what can be known of the program's image is known. Otherwise it is read from now on."""
        ...

    def submit(
        self, submission: Submission, pods: tuple[PodRef, ...], user: str, program: ContainerProgram | None = None
    ) -> "Future[str]":
        """Queue these pods as one job of a user, one member each. Resolves with its id, once on disk.

        `program` is checked by preflight, with what is known of its image. Raises Refused, Forbidden, Conflict,
        LedgerFailed, directly or by the future.
        """
        ...

    def spec(self, submission: Submission, user: str, program: ContainerProgram | None = None) -> JobSpec:
        """Return what a job of this submission would be, without queueing it. Raises Refused, Forbidden."""
        ...

    def withdraw(self, job_id: str, reason: str) -> bool:
        """End a job that waits. Return False if it has been given a place, or has ended."""
        ...

    def cancel(self, job_id: str, reason: str) -> None:
        """End a job of which a pod cannot run any more. Does nothing if the job has ended or is being stopped."""
        ...

    def why(self, job_id: str) -> str:
        """Return why the job waits, a sentence. Raises NotFound."""
        ...

    def follow(self, changed: Callable[[str], None]) -> None:
        """Call `changed` on the ledger's thread for each job whose phase has changed. It must return at once."""
        ...
