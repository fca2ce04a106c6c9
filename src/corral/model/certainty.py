"""How sure it is when a job starts."""

from enum import StrEnum


class Certainty(StrEnum):
    """What an expected start is.

    PROMISE: what the job needs is reserved from then on, and all who hold it now have time limits that end before; only
    work that goes before it by rank can still delay it. EXPECTATION: what comes of everybody's estimates.
    """

    PROMISE = "promise"
    EXPECTATION = "expectation"
