"""Past periods as people write them, by day and by month, in this machine's time zone."""

import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from corral.core.model.errors import Refused
from corral.core.model.units import parse_duration_s
from corral.formatting.times import clock_time

_MONTH = re.compile(r"\d{4}-\d{2}")
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_FORMS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")
MOST_MONTHS = 600


class Period(NamedTuple):
    """A period from a moment up to another, in Unix seconds. `month` is the month that contains it, such as 2026-10."""

    since: float
    until: float
    month: str | None = None


def parse_past(text: str, now: float, *, field: str) -> float:
    """A past moment in Unix seconds: 2026-10, 2026-10-01, 2026-10-01T08:00, 08:00, now, or 30d for 30 days ago.

    A month or a day begins at its midnight. A time without a day means its last occurrence. Raises Refused.
    """
    given = text.strip()
    if given == "now":
        return now
    if _MONTH.fullmatch(given):
        given += "-01"
    for form in _FORMS:
        try:
            return datetime.strptime(given, form).astimezone().timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    if match := _TIME.fullmatch(given):
        today = datetime.fromtimestamp(now).astimezone()
        at = today.replace(hour=int(match[1]), minute=int(match[2]), second=int(match[3] or 0), microsecond=0)
        return at.timestamp() if at <= today else (at - timedelta(days=1)).timestamp()
    try:
        return now - parse_duration_s(given, field=field)
    except Refused:
        raise Refused(
            f"{field}: {text!r:.60} is not a time; write one such as 2026-10-01, 2026-10-01T08:00, 08:00, or 30d",
            field=field,
        ) from None


def months_of(period: Period) -> Iterator[Period]:
    """The period in pieces, each within one month. Raises Refused if there are too many."""
    at, number = period.since, 0
    while at < period.until:
        first = datetime.fromtimestamp(at).astimezone()
        year, month = divmod(first.year * 12 + first.month, 12)
        end = datetime(year, month + 1, 1).astimezone().timestamp()
        yield Period(at, min(end, period.until), f"{first:%Y-%m}")
        at, number = end, number + 1
        if number > MOST_MONTHS:
            raise Refused(f"--from: more than {MOST_MONTHS} months are too many; begin later", field="--from")


def period_of(since: str | None, begin: str | None, until: str | None, *, default: str = "7d") -> Period:
    """The period in --since, --from and --until; by default the last `default`. Raises Refused."""
    now = time.time()
    end = now if until is None else min(now, parse_past(until, now, field="--until"))
    if begin is not None and since is not None:
        raise Refused("--since and --from both say where to begin; give one of them", field="--since")
    if begin is not None:
        start = parse_past(begin, now, field="--from")
    else:
        start = (end if until else now) - parse_duration_s(since or default, field="--since")
    if start >= end:
        raise Refused(
            f"--from: the period from {clock_time(start)} to {clock_time(end)} has no length; begin before it ends",
            field="--from",
        )
    return Period(start, end)
