"""In which order jobs are listed, where that is not the order of their submission."""

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
"""What a listing may be sorted by, and its value of a row at a moment (Unix seconds)."""


@dataclass(frozen=True, slots=True)
class JobSort:
    """By one of `SORT_KEYS`, the least first or the greatest.

    Rows without a value come last, and of equal ones the newest first.
    """

    key: str
    descending: bool = False


def parse_sort(text: str, *, field: str = "sort") -> JobSort:
    """The order that "started", or "-started" for the latest first, says. Raises Refused."""
    key = text.strip().lower().removeprefix("-")
    if key not in SORT_KEYS:
        raise Refused(f"{field}: {text!r:.40} is nothing to sort by; {nearest(key, SORT_KEYS)}", field=field)
    return JobSort(key, text.strip().startswith("-"))


def sorted_rows(rows: Iterable[JobRow], sort: JobSort, now: float) -> list[JobRow]:
    """The rows in that order."""
    value_of = SORT_KEYS[sort.key]
    newest_first = sorted(rows, key=lambda row: -(row.sequence or 0))
    valued = [(value, row) for row in newest_first if (value := value_of(row, now)) is not None]
    # Two steps, each stable: a sort that is reversed keeps the order of equal ones, too.
    valued.sort(key=lambda one: one[0], reverse=sort.descending)
    return [row for _, row in valued] + [row for row in newest_first if value_of(row, now) is None]
