"""Changes of very many jobs are several commits, so that what others ask for waits for one of them and not for all."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from corral.core.model.errors import Conflict, CorralError, LedgerFailed

JOBS_IN_A_COMMIT = 100
"""So many jobs are changed in one: some 10 ms of the ledger's thread."""

T = TypeVar("T")


def slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in order, as many at a time as one commit may change; one slice of nothing where there are none."""
    for start in range(0, max(1, len(items)), JOBS_IN_A_COMMIT):
        yield items[start : start + JOBS_IN_A_COMMIT]


def cut_short(error: CorralError, changed: int, of: int) -> CorralError:
    """The error where a later commit was not made, which says what those before it have changed."""
    kind = LedgerFailed if isinstance(error, LedgerFailed) else Conflict
    return kind(f"{changed:,} of {of:,} jobs are changed, and the rest is as it was: {error}")
