"""What users wrote is read behind one guard: whatever goes wrong in it concerns that one thing alone.

Logs, records, files, environments, names and the answers of programs are their users' to write. Some text always
breaks what reads it, in a way that nobody foresaw: deep nesting, a number of 5,000 digits, half a character. Threads
that decide and write end the server at such an exception, so that nothing of a user may raise one there.

Imports next to nothing at first: supervisors load it, too.
"""

from _thread import allocate_lock
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_MOST_WORDS = 200
_MOST_TOLD = 1000
_telling = allocate_lock()
_told: dict[str, None] = {}
"""What was logged already, the oldest first."""


class Unread:
    """What stands for a value that could not be read; `why` is a phrase such as "could not be read (ValueError)"."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why

    def __str__(self) -> str:
        return self.why


def guarded(what: str, read: Callable[[], T]) -> T | Unread:
    """What `read` makes of what a user wrote; Unread where that raises anything, which is logged once.

    `read` only computes: an error of the disk or of a node would be taken for the user's. `what` names the thing to
    people, such as "the log of job 17". The time is for `read` to bound.
    """
    try:
        return read()
    except Exception as error:
        # Also MemoryError and RecursionError: what `read` had taken is free again here.
        _tell_once(what, error)
        return Unread(f"could not be read ({type(error).__name__})")


def _tell_once(what: str, error: Exception) -> None:
    with _telling:
        if what in _told:
            return
        if len(_told) >= _MOST_TOLD:
            del _told[next(iter(_told))]
        _told[what] = None
    import logging

    logging.getLogger(__name__).warning(
        "%s could not be read, and counts as unreadable: %s%s", what, type(error).__name__, _words(error)
    )


def _words(error: Exception) -> str:
    """What the error says and where it was raised, printable and short: it may quote what it could not read."""
    from corral.core.model.printable import printable

    said, place = f"{error!s:.{_MOST_WORDS}}", error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" ({place.tb_frame.f_code.co_filename.rpartition('/')[2]}:{place.tb_lineno})"
    return f": {printable(said)}{where}" if said else where
