"""When a job with a time limit is told to save its work, and when it is stopped. Pure; times in seconds since boot."""

from typing import NamedTuple


class TimeLimit(NamedTuple):
    """`notice_at` is when the checkpoint signal is due, None where there is none; `ends_at` when the job is stopped.

    `limit_s` is how long it may run.
    """

    notice_at: float | None
    ends_at: float
    limit_s: float


def time_limit(began_at: float, limit_s: float, notice_s: float | None) -> TimeLimit:
    """The moments of a job that runs since `began_at`; `notice_s` is how long before its end it is signalled.

    The notice lies within the limit. A limit that is not longer has none: the signal would kill a program that has just
    started and does not expect it yet.
    """
    ends_at = began_at + limit_s
    return TimeLimit(None if notice_s is None or notice_s >= limit_s else ends_at - notice_s, ends_at, limit_s)


def in_words(seconds: float) -> str:
    """A duration in its two largest units, "2h 5m", as the rest of Corral writes it."""
    left = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return " ".join(part for part in parts[:2] if part) or f"{seconds:g}s"
