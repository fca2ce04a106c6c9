"""The ways in which Corral says no. Waiting is not among them: that is a value, `core.model.placing.fit.Misfit`."""

from collections.abc import Iterable, Mapping


class CorralError(Exception):
    """Base of every error that Corral raises on purpose. `str(error)` is meant for a person."""


class Refused(CorralError):
    """Bad input: names the field, says why, and what would be accepted.

    Attributes:
        field: the offending field as its user wrote it, or None if it is the request as a whole.
        descriptions: what the field is, by language ("en", "zh"), for whoever shows the message to a person.
    """

    def __init__(
        self, message: str, *, field: str | None = None, descriptions: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.field = field
        self.descriptions = descriptions or {}


class NotFound(Refused):
    """The job, device or queue that was named does not exist here."""


class Forbidden(Refused):
    """The caller may not do this; says who may."""


class Conflict(CorralError):
    """The request is valid, but what it names is in a state that does not allow it."""


class BackendFailed(CorralError):
    """A machine, driver or daemon failed. The work is retried with backoff; nothing is wrong with the request."""


class NodeLacks(BackendFailed):
    """A node or its cluster lacks for now what work needs: a Docker daemon, a right. The work waits; it never fails."""


class DevicesTaken(BackendFailed):
    """Somebody else took what was chosen, before anything of the work ran. It is placed anew at once."""


class NodeUnreachable(BackendFailed):
    """A node's agent did not answer in time. What it was asked to do may have been done, or may still be done."""


class LedgerFailed(CorralError):
    """The ledger cannot be read or written: locked, corrupt, full disk, or made by a newer version."""


def nearest(word: str, choices: Iterable[str]) -> str:
    """A hint naming the choice most like `word`, or all of them when none is close; "" when there are none."""
    from difflib import get_close_matches

    known = sorted(str(choice) for choice in choices)
    close = get_close_matches(word, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}" if known else ""
