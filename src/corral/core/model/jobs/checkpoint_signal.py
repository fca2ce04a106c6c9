"""The signal that tells a job to save its work, and the processes of the job that get it.

One word says both. "USR1" is for every process of the job. "B:USR1" is for its main process alone: for a script the
shell that runs it, for a gang the main process of rank 0. "S:USR1" is for all but the main process of each member.
"""

from collections.abc import Set
from enum import StrEnum
from typing import NamedTuple

NAMES = ("USR1", "USR2", "HUP", "INT", "TERM")
_ENDING = ("INT", "TERM")
"""Signals that programs catch in order to end."""


class Target(StrEnum):
    """The processes of a job that get the signal. The value is the letter before the colon."""

    ALL = ""
    MAIN = "B"
    OTHERS = "S"


class CheckpointSignal(NamedTuple):
    """A signal, and the processes of a job that get it. `name` is the signal's name without SIG."""

    name: str
    target: Target

    @classmethod
    def parse(cls, word: str) -> "CheckpointSignal":
        """Parse `word`. Raises ValueError for an unknown target. The signal's name is not checked."""
        target, _, name = word.rpartition(":")
        return cls(name, Target(target))

    @property
    def repeats(self) -> bool:
        """Whether it can be sent to a program that goes on."""
        return self.name not in _ENDING

    def reaches(self, rank: int) -> bool:
        """Whether this member of the job gets it at all."""
        return rank == 0 or self.target is not Target.MAIN

    def among(self, pids: Set[int], main_pids: Set[int]) -> Set[int]:
        """The processes of a member that get the signal."""
        match self.target:
            case Target.ALL:
                return pids
            case Target.MAIN:
                return pids & main_pids
            case Target.OTHERS:
                return pids - main_pids


WORDS = tuple(f"{target}:{name}" if target else name for target in Target for name in NAMES)
"""All words that a job may use."""
