"""That a job has ended for good is to be told, where its user has asked for that."""

from corral.model.fact import Fact, NotificationDue
from corral.model.job import Job


def notification(job: Job, *, by: str, at: float) -> list[Fact]:
    """What goes with the end of a job that will not be tried again; nothing for one that nobody wants to hear of."""
    if job.spec.notify is None:
        return []
    return [NotificationDue(job.id, job.spec.user, job.array_id, at=at, by=by)]
