"""Which jobs a change is for: those of some ids, or all that a user, a name, an array and phases choose."""

from dataclasses import dataclass

from corral.model.job import Job, Phase
from corral.model.name_pattern import fits

OWN = "me"
"""In the place of a user's name: the caller."""


@dataclass(frozen=True, slots=True)
class JobChoice:
    """Jobs to change. Of those of `ids`, or else of all jobs, those to which all that is given besides applies.

    Attributes:
        ids: an array's stands for all its elements.
        user: whose jobs; "me" is the caller, and so is None without ids.
        name: as `corral.model.name_pattern` reads it: * is any characters, and a comma separates several.
        array: the id of an array.
        phase: any of these; () are those in which the change makes sense.
        before: only jobs of a lower sequence number.
        dry_run: only tell what would be changed.
    """

    ids: tuple[str, ...] = ()
    user: str | None = None
    name: str | None = None
    array: str | None = None
    phase: tuple[Phase, ...] = ()
    before: int | None = None
    dry_run: bool = False

    @property
    def narrows(self) -> bool:
        """Whether it says more than ids."""
        return bool(self.phase) or (self.user, self.name, self.array) != (None, None, None)

    def has(self, job: Job, user: str | None) -> bool:
        """Whether it chooses the job, of this user's (None: of everybody's), whatever the ids are."""
        return (
            (user is None or job.spec.user == user)
            and (not self.phase or job.phase in self.phase)
            and (self.array is None or job.array_id == self.array)
            and (self.before is None or job.sequence < self.before)
            and (self.name is None or fits(job.spec.name, self.name))
        )
