"""Counts the waits of started jobs and the ends of jobs, from the deltas that the ledger publishes."""

from collections.abc import Sequence

from corral.core.model.fact import AllocationMade, Delta, JobChanged, JobSubmitted
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import TERMINAL_PHASES
from corral.core.model.placing.plan import PARKED
from corral.core.model.view import View
from corral.histogram import WAIT_SECONDS, Histogram


class JobCounts:
    """Written by the ledger's thread; any thread may read.

    Attributes:
        waits: seconds from submission to the first allocation, without the time in which the job was parked, by queue.
        ends: the number of ended attempts, by phase and queue; attempts that are retried count too.
    """

    def __init__(self, before: View) -> None:
        """`before` is the view to which the first deltas are applied."""
        self.waits: dict[str, Histogram] = {}
        self.ends: dict[tuple[str, str], int] = {}
        self._before = before

    def on_change(self, view: View, deltas: Sequence[Delta]) -> None:
        """Count the published deltas."""
        for delta in deltas:
            kind = type(delta)
            if kind is AllocationMade:
                assert isinstance(delta, AllocationMade)
                job = self._find(delta.allocation.job_id, view, deltas)
                if job is not None and delta.allocation.attempt == 1:
                    self._started(job, delta.allocation.created_at)
            elif kind is JobChanged:
                assert isinstance(delta, JobChanged)
                phase = delta.changes.get("phase")
                if phase in TERMINAL_PHASES and (job := self._find(delta.job_id, view, deltas)) is not None:
                    key = (str(phase), job.spec.queue)
                    self.ends[key] = self.ends.get(key, 0) + 1
        self._before = view

    def _find(self, job_id: str, view: View, deltas: Sequence[Delta]) -> Job | None:
        """Return a job that these deltas are about. A job that they end is no longer in the view."""
        job = view.jobs.get(job_id) or self._before.jobs.get(job_id)
        if job is not None:
            return job
        submitted = (delta.job for delta in deltas if isinstance(delta, JobSubmitted))
        return next((job for job in submitted if job.id == job_id), None)

    def _started(self, job: Job, at: float) -> None:
        parked_s = sum(seconds for reason, seconds in job.waited if reason in PARKED)
        waits = self.waits.get(job.spec.queue)
        if waits is None:
            waits = self.waits[job.spec.queue] = Histogram(WAIT_SECONDS)
        waits.add(max(0.0, at - job.submitted_at - parked_s))
