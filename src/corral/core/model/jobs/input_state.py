"""Whether a job takes input."""

from enum import StrEnum


class InputState(StrEnum):
    """It waits for its start; it takes more; or it takes none any more, having all of it, or having ended."""

    WAITING = "waiting"
    OPEN = "open"
    CLOSED = "closed"
