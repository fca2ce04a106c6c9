"""Which stretch of time a question is about. Pure."""

from corral.core.model.errors import Refused, nearest
from corral.core.model.units import format_duration

RANGES_S = {"30m": 1800, "1h": 3600, "6h": 21600, "12h": 43200, "24h": 86400, "2d": 2 * 86400, "7d": 7 * 86400}
"""The stretches of time up to now that have a name."""


def span_of(
    range_name: str | None, start: int | None, end: int | None, *, default: str, now: float, kept_s: int
) -> tuple[int, int]:
    """Return the span (Unix seconds, end exclusive) of a named range, or of a beginning and an end.

    It is cut to the kept time and to now. Raises Refused if the range is invalid.
    """
    if range_name is not None and (start is not None or end is not None):
        raise Refused("give range, or from and to, not both", field="range")
    if range_name is not None and range_name not in RANGES_S:
        raise Refused(f"range {range_name!r:.40} is not known; {nearest(range_name, RANGES_S)}", field="range")
    end = int(now) + 1 if end is None else end
    start = end - RANGES_S[range_name or default] if start is None else start
    if start >= end:
        raise Refused(f"from ({start}) must be before to ({end}), both in Unix seconds", field="from")
    if end < now - kept_s:
        raise Refused(
            f"the range ended {format_duration(int(now - end))} ago, and history is kept for "
            f"{format_duration(kept_s)} at most (metrics_retention_days)",
            field="to",
        )
    if start > now:
        raise Refused(f"from ({start}) is in the future; it is {int(now)} now, in Unix seconds", field="from")
    return max(start, int(now - kept_s)), min(end, int(now) + 1)
