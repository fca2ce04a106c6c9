"""A filter of jobs by their fields: for listings, for changes of many jobs, and for the ledger's tables."""

from dataclasses import dataclass

from corral.core.model.jobs.job import Job
from corral.core.model.jobs.name_pattern import fits
from corral.core.model.jobs.phase import Phase


@dataclass(frozen=True, slots=True)
class JobFilter:
    """The jobs that meet all given conditions.

    Attributes:
        users, queues, projects, namespaces, phases: any of these; () is any.
        name: a pattern of `corral.core.model.jobs.name_pattern`.
        array_id: the id of an array.
        since: submitted then or later, Unix seconds.
        before_sequence: only jobs with a lower sequence number.
    """

    users: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()
    array_id: str | None = None
    name: str | None = None
    queues: tuple[str, ...] = ()
    since: float | None = None
    before_sequence: int | None = None
    projects: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()

    def has(self, job: Job) -> bool:
        """Whether this job meets the conditions."""
        return (
            (not self.users or job.spec.user in self.users)
            and (not self.phases or job.phase in self.phases)
            and (not self.queues or job.spec.queue in self.queues)
            and (not self.projects or job.spec.project in self.projects)
            and (not self.namespaces or job.spec.namespace in self.namespaces)
            and (self.array_id is None or job.array_id == self.array_id)
            and (self.since is None or job.submitted_at >= self.since)
            and (self.before_sequence is None or job.sequence < self.before_sequence)
            and (self.name is None or fits(job.spec.name, self.name))
        )
