"""The slice with due messages to users about their jobs, and the rule by which they become due."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from corral.core.model.draft import DraftOf
from corral.core.model.fact import Delta, Fact, JobChanged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.notification import NotifyOn
from corral.core.model.jobs.phase import Phase
from corral.core.model.slice import Slice
from corral.core.model.view import EMPTY, View
from corral.features.channels.facts import NoticeDue, NoticeGiven, NotificationDue, NotificationGiven


@dataclass(frozen=True, slots=True)
class DueNotice:
    """The start or the end of a job or an array, which its user's channel has still to report.

    Attributes:
        job_id: the job; for an array the element that started or ended last.
        started: whether it has started; else it has ended.
        at: when, in Unix seconds by the server's clock.
    """

    job_id: str
    user: str
    started: bool
    at: float


@dataclass(frozen=True, slots=True)
class DueNotification:
    """The end of a job or an array, for which the user's command has still to run.

    Attributes:
        job_id: the job; for an array the element that ended last.
        user: the user of the job.
        at: when it ended, in Unix seconds by the server's clock.
    """

    job_id: str
    user: str
    at: float


@dataclass(frozen=True)
class NoticesSlice(Slice):
    """The due messages.

    Attributes:
        notifications: ends of jobs for which a command is still to run, by the id of the job or array.
        notices: starts and ends of jobs that are still to be sent through users' channels, by `NoticeDue.key`.
    """

    notifications: Mapping[str, DueNotification] = field(default_factory=lambda: EMPTY)
    notices: Mapping[str, DueNotice] = field(default_factory=lambda: EMPTY)

    deltas = (NotificationDue, NotificationGiven, NoticeDue, NoticeGiven)

    @staticmethod
    def fold(draft: "DraftOf[NoticesSlice]", delta: Delta) -> None:
        """Add a due message, or remove a given one."""
        match delta:
            case NotificationDue(job_id=job_id, user=user, at=at):
                draft.put("notifications", delta.key, DueNotification(job_id, user, at))
            case NotificationGiven(job_id=job_id):
                draft.drop("notifications", job_id)
            case NoticeDue(job_id=job_id, user=user, started=started, at=at):
                draft.put("notices", delta.key, DueNotice(job_id, user, started, at))
            case NoticeGiven(key=key):
                draft.drop("notices", key)

    def follows(self, view: View, facts: Sequence[Fact]) -> Sequence[Fact]:
        """Return the facts of messages that become due: at the first start of a job, and at an end without a retry."""
        due: list[Fact] = []
        for fact in facts:
            if isinstance(fact, JobChanged) and (phase := fact.changes.get("phase")) is not None:
                due += _due(fact, phase, view.jobs[fact.job_id])
        return due


def _due(fact: JobChanged, phase: Phase, job: Job) -> Iterator[Fact]:
    if phase is Phase.RUNNING and fact.changes.get("attempts") == 1 and NotifyOn.STARTED in job.spec.notify_on:
        yield _notice(job, fact, started=True)
    if phase.terminal and job.phase.terminal:
        if job.spec.notify is not None:
            yield NotificationDue(job.id, job.spec.user, job.array_id, at=fact.at, by=fact.by)
        if NotifyOn.DONE in job.spec.notify_on or NotifyOn.FAILED in job.spec.notify_on:
            yield _notice(job, fact, started=False)


def _notice(job: Job, fact: JobChanged, *, started: bool) -> NoticeDue:
    return NoticeDue(job.id, job.spec.user, started, job.array_id, at=fact.at, by=fact.by)
