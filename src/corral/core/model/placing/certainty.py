"""How sure it is when a job starts."""

from enum import StrEnum


class Certainty(StrEnum):
    """What is known of a job's start.

    PROMISE: what the job needs is reserved from then on, all who hold it now have time limits that end before, and
    nobody who waits now can pass it; only work of a better rank that comes later can still delay it.
    EXPECTATION: what comes of everybody's estimates.
    UNFORESEEN: no start is known: so many jobs go first that the forecast, which is bounded, did not reach it.
    """

    PROMISE = "promise"
    EXPECTATION = "expectation"
    UNFORESEEN = "unforeseen"
