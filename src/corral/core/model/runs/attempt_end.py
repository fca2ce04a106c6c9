"""The ways in which an attempt to run a job ends."""

from enum import StrEnum


class AttemptEnd(StrEnum):
    """How an attempt ended.

    PREEMPTED: it was stopped for other jobs. REQUEUED: a user had the job run again. NOT_LAUNCHED: nothing of it ran.
    The others are the phases of the same name.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    NOT_LAUNCHED = "not_launched"
