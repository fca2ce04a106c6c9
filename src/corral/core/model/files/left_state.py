"""Whether what a job has left for its user can be fetched."""

from enum import StrEnum


class LeftState(StrEnum):
    """Whether the directory that a job leaves can be fetched.

    WAITING: the job has not ended, or its node still reads the directory. READY: it can be fetched. NOTHING: the job
    left none. FAILED: it could not be kept. GONE: it is not kept any more.
    """

    WAITING = "waiting"
    READY = "ready"
    NOTHING = "nothing"
    FAILED = "failed"
    GONE = "gone"
