"""Splits changes of many jobs into several commits, so that other requests wait for one commit and not for all."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from corral.core.model.errors import Conflict, CorralError, LedgerFailed

JOBS_IN_A_COMMIT = 100
"""The most jobs that one commit changes: it takes about 10 ms of the ledger's thread."""

T = TypeVar("T")


def slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in order, in slices of the size of one commit; one empty slice if there are no items."""
    for start in range(0, max(1, len(items)), JOBS_IN_A_COMMIT):
        yield items[start : start + JOBS_IN_A_COMMIT]


def cut_short(error: CorralError, changed: int, of: int) -> CorralError:
    """Return the error for a commit that failed after others had succeeded. It says how many jobs are changed."""
    kind = LedgerFailed if isinstance(error, LedgerFailed) else Conflict
    return kind(f"{changed:,} of {of:,} jobs are changed, the others are not: {error}")
