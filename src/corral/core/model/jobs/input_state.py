"""The state of a job's standard input."""

from enum import StrEnum


class InputState(StrEnum):
    """WAITING: the job has not started. OPEN: it takes more input. CLOSED: it has all its input, or has ended."""

    WAITING = "waiting"
    OPEN = "open"
    CLOSED = "closed"
