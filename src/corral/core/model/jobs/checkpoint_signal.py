"""The signal by which a job is told to save its work, and which of its processes get it.

One word says both: "USR1" is for every process of the job, "B:USR1" for its main process alone (of a script the shell
that runs it, of a gang that of rank 0), "S:USR1" for all but the main process of each member.
"""

from collections.abc import Set
from enum import StrEnum
from typing import NamedTuple

NAMES = ("USR1", "USR2", "HUP", "INT", "TERM")


class Target(StrEnum):
    """Which processes of a job are meant; the value stands before the colon."""

    ALL = ""
    MAIN = "B"
    OTHERS = "S"


class CheckpointSignal(NamedTuple):
    """`name` is without SIG."""

    name: str
    target: Target

    @classmethod
    def parse(cls, word: str) -> "CheckpointSignal":
        """What `word` means. Raises ValueError for what is no target; whether the name is one is not looked at."""
        target, _, name = word.rpartition(":")
        return cls(name, Target(target))

    def reaches(self, rank: int) -> bool:
        """Whether this member of the job gets it at all."""
        return rank == 0 or self.target is not Target.MAIN

    def among(self, pids: Set[int], main_pids: Set[int]) -> Set[int]:
        """Which of a member's processes get it."""
        match self.target:
            case Target.ALL:
                return pids
            case Target.MAIN:
                return pids & main_pids
            case Target.OTHERS:
                return pids - main_pids


WORDS = tuple(f"{target}:{name}" if target else name for target in Target for name in NAMES)
"""All that a job may ask for."""
