"""Events of a stream, sent as they happen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream.

    Attributes:
        topic: jobs, devices, alerts, tasks or metrics; or of the stream itself: hello, ping, reset, overflow.
        what: what happened, in one word, such as "submitted".
        id: its place in the journal; a stream with this number as `after` continues behind it. None if it has none.
        at: when, in Unix seconds.
        by: the user or the part of the server that caused it; None if there is none.
        rows: the changed fields of rows of listings, with the fields that identify the rows.
        message: a sentence for a person, None if there is none.
    """

    topic: str
    what: str
    id: int | None = None
    at: float = 0.0
    by: str | None = None
    rows: tuple[Mapping[str, Any], ...] = ()
    message: str | None = None
