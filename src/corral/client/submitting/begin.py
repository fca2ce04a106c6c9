"""Reads the time when a job may begin, in the formats of sbatch(1), by the clock and calendar of this machine."""

import re
from datetime import UTC, date, datetime, time, timedelta
from math import isfinite

from corral.core.model.errors import Refused
from corral.core.model.units import SECONDS_PER_UNIT

_FROM_NOW = re.compile(
    r"now(?:\s*\+\s*(\d{1,9})\s*(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?|w(?:eeks?)?)?)?"
)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?\s*([ap]m)?")
_NAMED_TIMES = {"midnight": time(0), "elevenses": time(11), "noon": time(12), "fika": time(15), "teatime": time(16)}
_DATES = (
    (re.compile(r"(?P<y>\d{4})-(?P<m>\d\d?)-(?P<d>\d\d?)"), 0),
    (re.compile(r"(?P<m>\d\d?)[/.](?P<d>\d\d?)[/.](?P<y>\d{4})"), 0),
    (re.compile(r"(?P<m>\d\d?)[/.](?P<d>\d\d?)[/.](?P<y>\d\d)"), 2000),
    (re.compile(r"(?P<m>\d\d)(?P<d>\d\d)(?P<y>\d\d)"), 2000),
)
"""The formats of dates, each with the century to add to the year."""


def parse_begin(given: str | float | None, now: float, *, field: str = "begin") -> float | None:
    """Unix seconds of a time: "16:00", "4:00pm", "now+2hours", "tomorrow", "noon", "2026-12-01T08:00".

    A time of day that is past means tomorrow's. A date alone means its midnight. A number is Unix seconds already.
    Raises Refused for anything else.
    """
    if given is None:
        return None
    if not isinstance(given, str):
        if not isfinite(given):
            raise Refused(f"{field}: {given} is not a time; give Unix seconds", field=field)
        return float(given)
    text = given.strip().lower()
    from_now = _FROM_NOW.fullmatch(text)
    if from_now is not None:
        return now + int(from_now[1] or 0) * SECONDS_PER_UNIT[(from_now[2] or "s")[0]]
    try:
        here = datetime.fromtimestamp(now, UTC).astimezone()
        return _moment(text, here.replace(tzinfo=None)).timestamp()
    except (ValueError, OverflowError) as error:
        raise Refused(
            f"{field}: {given!r} is not a time; write one such as 16:00, now+2hours, tomorrow or 2026-12-01T08:00",
            field=field,
        ) from error


def _moment(text: str, now: datetime) -> datetime:
    """A date, a time of day, or both with a T between them. Raises ValueError."""
    words = text.split("t", 1) if text[:1].isdigit() else [text]
    day = _date(words[0], now.date())
    if day is not None:
        return datetime.combine(day, _time(words[1]) if len(words) > 1 else time())
    moment = datetime.combine(now.date(), _time(text))
    return moment if moment > now else moment + timedelta(days=1)


def _date(text: str, today: date) -> date | None:
    if text in ("today", "tomorrow"):
        return today + timedelta(days=text == "tomorrow")
    for form, century in _DATES:
        found = form.fullmatch(text)
        if found is not None:
            return date(century + int(found["y"]), int(found["m"]), int(found["d"]))
    return None


def _time(text: str) -> time:
    if text in _NAMED_TIMES:
        return _NAMED_TIMES[text]
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(text)
    hour, half = int(found[1]), found[4]
    if half is not None:
        if not 1 <= hour <= 12:
            raise ValueError(text)
        hour = hour % 12 + (12 if half == "pm" else 0)
    return time(hour, int(found[2]), int(found[3] or 0))
