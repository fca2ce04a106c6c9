"""The order of jobs in a listing, if it is not the order of submission."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from corral.core.model.answers.jobs import JobRow
from corral.core.model.errors import Refused, nearest

SortValue = float | str | None

SORT_KEYS: dict[str, Callable[[JobRow, float], SortValue]] = {
    "id": lambda row, now: row.sequence,
    "name": lambda row, now: row.name,
    "user": lambda row, now: row.user,
    "state": lambda row, now: str(row.phase),
    "queue": lambda row, now: row.queue,
    "project": lambda row, now: row.project,
    "priority": lambda row, now: row.priority,
    "submitted": lambda row, now: row.submitted_at,
    "started": lambda row, now: row.started_at,
    "ended": lambda row, now: row.ended_at,
    "time": lambda row, now: None if row.started_at is None else (row.ended_at or now) - row.started_at,
    "attempts": lambda row, now: row.attempts,
    "exit": lambda row, now: row.exit_code,
}
"""The keys that a listing may be sorted by, each with a function of a row and the time (Unix seconds)."""


@dataclass(frozen=True, slots=True)
class JobSort:
    """An order by one of `SORT_KEYS`, ascending or descending.

    Rows without a value come last. Of equal rows the newest come first.
    """

    key: str
    descending: bool = False


def parse_sort(text: str, *, field: str = "sort") -> JobSort:
    """Parse an order: "started", or "-started" for the latest first. Raises Refused."""
    key = text.strip().lower().removeprefix("-")
    if key not in SORT_KEYS:
        raise Refused(f"{field}: {text!r:.40} is not a column to sort by; {nearest(key, SORT_KEYS)}", field=field)
    return JobSort(key, text.strip().startswith("-"))


def sorted_rows(rows: Iterable[JobRow], sort: JobSort, now: float) -> list[JobRow]:
    """The rows in the order of `sort`."""
    value_of = SORT_KEYS[sort.key]
    newest_first = sorted(rows, key=lambda row: -(row.sequence or 0))
    valued = [(value, row) for row in newest_first if (value := value_of(row, now)) is not None]
    # The sort is stable, even with `reverse`, so equal rows stay in the order newest first.
    valued.sort(key=lambda one: one[0], reverse=sort.descending)
    return [row for _, row in valued] + [row for row in newest_first if value_of(row, now) is None]
