"""Answers about moves of running jobs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A running job that would be moved.

    Attributes:
        nodes: the nodes that it leaves.
        reason: why it moves, for a person.
        for_job: the job that starts in its place; None if its node becomes empty.
        lost_gpu_hours: the GPU-hours of work that it loses.
        saves: it gets its checkpoint signal first, so the work need not be lost.
    """

    job: str
    user: str
    nodes: tuple[str, ...] = ()
    reason: str = ""
    for_job: str | None = None
    lost_gpu_hours: float = 0.0
    saves: bool = False


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The moves that the scheduler would make now.

    Attributes:
        moves: in the order of the decisions.
        starts: the waiting jobs that start by them.
        emptied: the nodes that become empty.
        until: the time until which the scheduler may move jobs, Unix seconds; None if it may not now.
    """

    moves: tuple[MoveRow, ...] = ()
    starts: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    until: float | None = None
