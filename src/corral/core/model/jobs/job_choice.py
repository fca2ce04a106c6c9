"""The choice of the jobs to change: by ids, or by user, name, array and phases."""

from dataclasses import dataclass
from typing import Annotated

from corral.core.model.field import Field
from corral.core.model.jobs.job_filter import JobFilter
from corral.core.model.jobs.name_pattern import MOST_CHARACTERS
from corral.core.model.jobs.phase import Phase

MOST_AT_ONCE = 10_000
"""The most jobs that one request changes; a client with more jobs sends further requests."""

LAST_SEQUENCE = 2**63 - 1

OWN = "me"
"""Stands for the caller in place of a user's name."""


@dataclass(frozen=True, slots=True)
class JobChoice:
    """Jobs to change. These are the jobs of `ids`, or all jobs without ids, if they meet all other given conditions.

    Attributes:
        ids: the id of an array means all its elements, 17_[3-9] or 17_[1,3] some of them.
        user: the user of the jobs; "me" is the caller, and so is None without ids.
        name: a pattern of `corral.core.model.jobs.name_pattern`: * is any characters, and a comma separates several.
        array: the id of an array.
        phase: any of these; () are those in which the change makes sense.
        before: only jobs of a lower sequence number.
        dry_run: change nothing, and only report the changes.
    """

    ids: Annotated[tuple[str, ...], Field(longest=MOST_AT_ONCE)] = ()
    user: str | None = None
    name: Annotated[str | None, Field(longest=MOST_CHARACTERS)] = None
    array: str | None = None
    phase: tuple[Phase, ...] = ()
    before: Annotated[int | None, Field(least=0, most=LAST_SEQUENCE)] = None
    dry_run: bool = False

    @property
    def narrows(self) -> bool:
        """Whether it has other conditions than ids."""
        return bool(self.phase) or (self.user, self.name, self.array) != (None, None, None)

    def of_user(self, user: str | None) -> JobFilter:
        """The filter for this user's jobs (None: all users), with all conditions except the ids."""
        return JobFilter(
            users=() if user is None else (user,),
            # Without this, a phase that is repeated many times would be compared with each job as often.
            phases=tuple(dict.fromkeys(self.phase)),
            array_id=self.array,
            name=self.name,
            before_sequence=self.before,
        )
