"""The memory use of a job before it ran out of memory: a line of bars, and numbers."""

from __future__ import annotations

from corral.core.model.errors import CorralError
from corral.core.model.units import format_duration, format_memory
from corral.formatting.times import clock_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.client import Client, Explanation, HistoryPoint, JobDetail

TREND_S = 600
COLUMNS = 40
SERIES = "memory_used_mib"

_BARS = "▁▂▃▄▅▆▇█"
_GAP = "·"
_SAID = ("out of gpu memory", "more than its grant", "no gpu memory")
"""Phrases about a job that ran out of GPU memory, or was stopped because it used more than its grant."""


def ran_out_of_memory(detail: JobDetail, explanation: Explanation | None) -> bool:
    """Whether the job ended because it ran out of memory, as far as is known."""
    said = [detail.reason or "", "" if explanation is None else explanation.diagnosis or ""]
    return detail.ended_at is not None and any(words in text.lower() for text in said for words in _SAID)


def memory_trend(client: Client, detail: JobDetail) -> list[str]:
    """The last ten minutes of the job, as lines for a person; empty if they are not known any more."""
    if detail.ended_at is None:
        return []
    # The last reading may have come just after the end.
    since = max(detail.started_at or 0.0, detail.ended_at - TREND_S)
    try:
        found = client.jobs.history(detail.id, since=since, until=detail.ended_at + 2, series=SERIES)
    except CorralError:
        return []
    granted = [one.memory_mib for one in detail.grant]
    whole = None if None in granted or not granted else sum(mib or 0 for mib in granted)
    return trend_lines(found.series.get(SERIES, ()), found.step_s, since, whole)


def trend_lines(points: Sequence[HistoryPoint], step_s: int, since: float, granted_mib: int | None) -> list[str]:
    """A bar for each part of the time, with its highest memory use; then the first, last and highest values.

    A part without a reading has no bar. The highest bar is the grant, or the highest use if the grant is not known.
    """
    if not points:
        return []
    first, last, most = points[0], points[-1], max(points, key=lambda point: point.max)
    length_s = max(last.t + step_s - since, step_s)
    columns = max(1, min(COLUMNS, round(length_s / step_s)))
    tops: list[float | None] = [None] * columns
    for point in points:
        column = min(columns - 1, max(0, int((point.t - since) / length_s * columns)))
        tops[column] = max(point.max, tops[column] or 0.0)
    top = max(most.max, granted_mib or 0.0)
    bars = "".join(_GAP if value is None else _bar(value, top) for value in tops)
    granted = f", of {format_memory(granted_mib)} granted" if granted_mib is not None else ""
    at_first = f"{format_memory(round(first.mean))} at {clock_time(first.t)}"
    at_last = f"{format_memory(round(last.max))} at the end"
    return [
        f"{bars}  the last {format_duration(length_s)}",
        f"{at_first}, {at_last}; at most {format_memory(round(most.max))}{granted}",
    ]


def _bar(value: float, top: float) -> str:
    return _BARS[min(len(_BARS) - 1, int(value / top * len(_BARS)))] if top else _BARS[0]
