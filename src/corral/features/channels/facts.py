"""Facts about what users are to be told: it is due from the commit of a start or an end on, and given once."""

from dataclasses import dataclass

from corral.core.model.fact import Fact


@dataclass(frozen=True, slots=True)
class NotificationDue(Fact):
    """A job has ended for good, and its user is to be told; of an array once none of its elements is left."""

    job_id: str
    user: str
    array_id: str | None = None

    @property
    def about(self) -> str:
        """The job."""
        return self.job_id

    @property
    def key(self) -> str:
        """The id of the array or of the job, by which the slice knows it."""
        return self.array_id or self.job_id

    @property
    def subject(self) -> str:
        """Whether its user was told."""
        return f"notification of job {self.key}"


@dataclass(frozen=True, slots=True)
class NotificationGiven(Fact):
    """A node has the notification of a job or an array to run, and runs it no second time."""

    job_id: str

    @property
    def subject(self) -> str:
        """Whether its user was told."""
        return f"notification of job {self.job_id}"

    @property
    def closes(self) -> bool:
        """It is done."""
        return True


@dataclass(frozen=True, slots=True)
class NoticeDue(Fact):
    """A job has started, or ended for good, and its user is to be told through their channel; of an array once."""

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
        """The start or the end of an array or a job, by which the slice knows it."""
        return f"{'start' if self.started else 'end'} of {self.array_id or self.job_id}"

    @property
    def subject(self) -> str:
        """Whether its user was told."""
        return f"notice of the {self.key}"


@dataclass(frozen=True, slots=True)
class NoticeGiven(Fact):
    """What was due is written down where messages wait to be sent. `key` is the one of `NoticeDue`."""

    key: str

    @property
    def subject(self) -> str:
        """Whether its user was told."""
        return f"notice of the {self.key}"

    @property
    def closes(self) -> bool:
        """It is done."""
        return True
