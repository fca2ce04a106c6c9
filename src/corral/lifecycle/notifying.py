"""That a job has started, or ended for good, is to be told, where its user has asked for that."""

from corral.model.fact import Fact, NoticeDue, NotificationDue
from corral.model.job import Job
from corral.model.notification import NotifyOn


def notification(job: Job, *, by: str, at: float) -> list[Fact]:
    """What goes with the end of a job that will not be tried again; nothing for one that nobody wants to hear of."""
    facts: list[Fact] = []
    if job.spec.notify is not None:
        facts.append(NotificationDue(job.id, job.spec.user, job.array_id, at=at, by=by))
    if NotifyOn.DONE in job.spec.notify_on or NotifyOn.FAILED in job.spec.notify_on:
        facts.append(NoticeDue(job.id, job.spec.user, False, job.array_id, at=at, by=by))
    return facts


def start_notice(job: Job, *, by: str, at: float) -> list[Fact]:
    """What goes with the first start of a job; nothing for one of which nobody wants to hear, or that had started."""
    if NotifyOn.STARTED not in job.spec.notify_on or job.attempts:
        return []
    return [NoticeDue(job.id, job.spec.user, True, job.array_id, at=at, by=by)]
