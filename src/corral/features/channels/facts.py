"""Facts about messages to users: a message is due from the commit of a start or an end on, and is given once."""

from dataclasses import dataclass

from corral.core.model.fact import Fact


@dataclass(frozen=True, slots=True)
class NotificationDue(Fact):
    """A job has ended for good, and a command is to notify its user; for an array once, after its last element."""

    job_id: str
    user: str
    array_id: str | None = None

    @property
    def about(self) -> str:
        """The job."""
        return self.job_id

    @property
    def key(self) -> str:
        """The key in the slice: the id of the array or of the job."""
        return self.array_id or self.job_id

    @property
    def subject(self) -> str:
        """Whether the user was notified."""
        return f"notification of job {self.key}"


@dataclass(frozen=True, slots=True)
class NotificationGiven(Fact):
    """A node has accepted the notification of a job or an array, and runs it only once."""

    job_id: str

    @property
    def subject(self) -> str:
        """Whether the user was notified."""
        return f"notification of job {self.job_id}"

    @property
    def closes(self) -> bool:
        """True: the notification is given."""
        return True


@dataclass(frozen=True, slots=True)
class NoticeDue(Fact):
    """A job has started, or ended for good, and its user is to get a message through a channel; once for an array."""

    job_id: str
    user: str
    started: bool
    array_id: str | None = None

    @property
    def about(self) -> str:
        """The job."""
        return self.job_id

    @property
    def key(self) -> str:
        """The key in the slice: the start or the end of an array or a job."""
        return f"{'start' if self.started else 'end'} of {self.array_id or self.job_id}"

    @property
    def subject(self) -> str:
        """Whether the user got the message."""
        return f"notice of the {self.key}"


@dataclass(frozen=True, slots=True)
class NoticeGiven(Fact):
    """The due message is in the outbox. `key` is the one of `NoticeDue`."""

    key: str

    @property
    def subject(self) -> str:
        """Whether the user got the message."""
        return f"notice of the {self.key}"

    @property
    def closes(self) -> bool:
        """True: the message is given."""
        return True
