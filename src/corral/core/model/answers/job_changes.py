"""Answers about changes of jobs, and about input sent to a job."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from corral.core.model.jobs.input import InputState


@dataclass(frozen=True, slots=True)
class InputProgress:
    """How much of its input a job has taken: all bytes before `offset`, the next one to send."""

    offset: int
    state: InputState = InputState.WAITING


@dataclass(frozen=True, slots=True)
class UnchangedJob:
    """A job that was not changed, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChangedJobs:
    """The result of a change of several jobs, or of its dry run.

    Attributes:
        ids: of the jobs that were changed.
        unchanged: the jobs that were not changed, by the id that named them.
        users: the users of the changed jobs.
        phases: how many of the changed jobs were in which phase before.
        next: the `before` of a request for the rest, None if there is none.
        notes: what the caller should know besides, a sentence each, such as nodes that do not answer now.
    """

    ids: tuple[str, ...]
    unchanged: tuple[UnchangedJob, ...] = ()
    users: tuple[str, ...] = ()
    phases: Mapping[str, int] = field(default_factory=dict)
    next: int | None = None
    notes: tuple[str, ...] = ()
