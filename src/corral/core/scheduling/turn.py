"""The turn of a job in a cycle, with the values that the stages of the cycle read."""

from typing import NamedTuple

from corral.core.model.jobs.job import Job
from corral.core.scheduling.policy import Policy


class Turn(NamedTuple):
    """A job whose turn it is, with the values that each stage of the cycle reads.

    Attributes:
        policy: the policy of its queue.
        run_s: its expected run time in seconds; infinity if it is not known.
        until: the time at which it would end if it started now, Unix seconds.
        first: whether no earlier job of its queue waits for room.
    """

    job: Job
    policy: Policy
    run_s: float
    until: float
    first: bool
