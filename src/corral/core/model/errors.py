"""The errors of Corral. Waiting is not an error but a value, `core.model.placing.fit.Misfit`."""

from collections.abc import Iterable, Mapping


class CorralError(Exception):
    """Base of every error that Corral raises on purpose. `str(error)` is meant for a person."""


class Refused(CorralError):
    """The input is invalid. The message names the field, and says why and what would be accepted.

    Attributes:
        field: the invalid field as its user wrote it, or None for the request as a whole.
        descriptions: descriptions of the field by language ("en", "zh"), for clients that show the message to a person.
    """

    def __init__(
        self, message: str, *, field: str | None = None, descriptions: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.field = field
        self.descriptions = descriptions or {}


class NotFound(Refused):
    """The named job, device or queue does not exist."""


class Forbidden(Refused):
    """The caller may not do this; the message says who may."""


class Conflict(CorralError):
    """The request is valid, but the named object is in a state that does not allow it."""


class BackendFailed(CorralError):
    """A machine, driver or daemon failed. The work is retried with backoff; nothing is wrong with the request."""


class NodeLacks(BackendFailed):
    """A node or its cluster lacks something, such as a Docker daemon or a right. The work waits; it never fails."""


class DevicesTaken(BackendFailed):
    """Another user took the chosen devices before any of the work ran. The work is placed anew at once."""


class NodeUnreachable(BackendFailed):
    """A node's agent did not answer in time. The requested action may have been done, or may still be done."""


class NodeRefused(NodeUnreachable):
    """The server does not take a node's word: its agent is of another version, serves another server, or makes no
    sense. Nothing starts there, and the message says why.
    """


class LedgerFailed(CorralError):
    """The ledger cannot be read or written: locked, corrupt, full disk, or made by a newer version."""


def nearest(word: str, choices: Iterable[str]) -> str:
    """A hint with the choice most similar to `word`, or with all choices if none is similar; "" without choices."""
    from difflib import get_close_matches

    known = sorted(str(choice) for choice in choices)
    close = get_close_matches(word, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}" if known else ""
