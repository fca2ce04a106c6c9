"""Answers about the directories that are sent with jobs, and those that come back."""

from dataclasses import dataclass

from corral.core.model.files.left_state import LeftState
from corral.core.model.files.tree import Tree


@dataclass(frozen=True, slots=True)
class UploadedTree:
    """A directory that its user has sent.

    Attributes:
        tree: its name, for the submission.
        files: how many files it has.
        size_bytes: the size of all files together.
        missing: contents to send before it can be submitted, many at a time; () if all are here.
    """

    tree: str
    files: int
    size_bytes: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftFiles:
    """The directory that a job has left for its user.

    Attributes:
        directory: its name, as the job was submitted with it.
        tree: its entries, once it is READY.
        left_out: paths that cannot be fetched, and why.
        reason: why it could not be kept.
        now: the clock of the node when it answered, Unix seconds; the times of the entries are by this clock.
    """

    state: LeftState
    directory: str
    tree: Tree | None = None
    left_out: tuple[str, ...] = ()
    reason: str | None = None
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of files, each in base64."""

    contents: tuple[str, ...]
