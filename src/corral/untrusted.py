"""A guard for reading text from users: an error in it affects only the thing that is being read.

Logs, records, files, environments, names and the answers of programs are written by users. There is always some
text that breaks its reader in an unforeseen way: deep nesting, a number of 5,000 digits, a lone surrogate. In a thread
that decides or writes, such an exception would end the server. So user text is read only inside this guard.

It imports almost nothing at first, because supervisors load it, too.
"""

from _thread import allocate_lock
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_MOST_WORDS = 200
_MOST_TOLD = 1000
_telling = allocate_lock()
_told: dict[str, None] = {}
"""The things that were logged already, the oldest first."""


class Unread:
    """Replaces a value that could not be read. `why` is a phrase like "could not be read (ValueError)"."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why

    def __str__(self) -> str:
        return self.why


def guarded(what: str, read: Callable[[], T]) -> T | Unread:
    """The result of `read` on text from a user; Unread if it raises anything, which is logged once.

    `read` must only compute: an error of the disk or of a node would be taken for the user's. `what` names the thing
    for people, for example "the log of job 17". `read` must limit its own time.
    """
    try:
        return read()
    except Exception as error:
        # This includes MemoryError and RecursionError: the memory of `read` is free again here.
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
    """The error's message and the place where it was raised, printable and short: it may quote the unreadable text."""
    from corral.core.model.printable import printable

    said, place = f"{error!s:.{_MOST_WORDS}}", error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" ({place.tb_frame.f_code.co_filename.rpartition('/')[2]}:{place.tb_lineno})"
    return f": {printable(said)}{where}" if said else where
