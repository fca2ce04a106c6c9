"""A job whose turn it is in a cycle."""

from typing import NamedTuple

from corral.core.model.jobs.job import Job
from corral.core.scheduling.policy import Policy


class Turn(NamedTuple):
    """A job, with what each stage of the cycle reads of it.

    Attributes:
        policy: that of its queue.
        run_s: its expected run time in seconds, infinity where it is not known.
        until: when it would end if it started now, Unix seconds.
        first: whether no job of its queue before it waits for room.
    """

    job: Job
    policy: Policy
    run_s: float
    until: float
    first: bool
