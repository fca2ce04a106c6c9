"""The certainty of a job's expected start."""

from enum import StrEnum


class Certainty(StrEnum):
    """How certain the start of a job is.

    PROMISE: the resources for the job are reserved from then on, and all their present holders have time limits that
    end before. No job that waits now can pass it; only a later job of a better rank can still delay it.
    EXPECTATION: the result of estimates of all jobs.
    UNFORESEEN: no start is known. Many jobs go first, and the forecast, which is bounded, did not reach this job.
    """

    PROMISE = "promise"
    EXPECTATION = "expectation"
    UNFORESEEN = "unforeseen"
