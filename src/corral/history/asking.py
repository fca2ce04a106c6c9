"""Answers what a device was like over a stretch of time."""

from collections.abc import Sequence

from corral.clock import Clock
from corral.history.levels import choose
from corral.history.recorder import HistoryRecorder
from corral.history.series import SERIES
from corral.model.answers.history import DeviceHistory
from corral.model.errors import NotFound, Refused, nearest
from corral.model.units import format_duration

RANGES_S = {"30m": 1800, "1h": 3600, "6h": 21600, "12h": 43200, "24h": 86400, "2d": 2 * 86400, "7d": 7 * 86400}
"""The stretches of time up to now that have a name."""

DEFAULT_RANGE = "1h"


class HistoryQueries:
    """Reads the history. Times asked for and told are of the wall clock."""

    def __init__(self, recorder: HistoryRecorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock

    def device(
        self,
        uuid: str,
        *,
        range_name: str | None = None,
        start: int | None = None,
        end: int | None = None,
        series: Sequence[str] = (),
    ) -> DeviceHistory:
        """The series (all, where none is named) of a device, also of one that is gone.

        Raises NotFound for a device that nothing was ever heard of, Refused for a range or series that makes no sense,
        and BackendFailed when the history cannot be read.
        """
        names = _known(series)
        start, end = self._span(range_name, start, end)
        if not self._recorder.knows(uuid):
            raise NotFound(f"there is no history of a device {uuid}; `corral devices` shows UUIDs with --json")
        first, last = int(self._clock.taken(start)), int(self._clock.taken(end))
        level, step_s = choose(self._recorder.levels, first, last, self._clock.now(), self._recorder.interval_s)
        span = (first // step_s * step_s, last)
        found = self._recorder.roll_ups(uuid, level, span, [SERIES.index(name) for name in names])
        # It loads numpy, which a server that starts is not to wait for.
        from corral.history.merging import points_of

        told = {name: points_of(found, name, step_s, self._clock.shown) for name in names}
        return DeviceHistory(uuid, start, end, step_s, told)

    def _span(self, range_name: str | None, start: int | None, end: int | None) -> tuple[int, int]:
        now = self._clock.shown(self._clock.now())
        if range_name is not None and (start is not None or end is not None):
            raise Refused("give range, or from and to, not both", field="range")
        if range_name is not None and range_name not in RANGES_S:
            raise Refused(f"range {range_name!r:.40} is not known; {nearest(range_name, RANGES_S)}", field="range")
        end = int(now) + 1 if end is None else end
        start = end - RANGES_S[range_name or DEFAULT_RANGE] if start is None else start
        if start >= end:
            raise Refused(f"from ({start}) must be before to ({end}), both in Unix seconds", field="from")
        kept_s = max(level.kept_s for level in self._recorder.levels)
        if end < now - kept_s:
            raise Refused(
                f"the range ended {format_duration(int(now - end))} ago, and history is kept for "
                f"{format_duration(kept_s)} at most (metrics_retention_days)",
                field="to",
            )
        if start > now:
            raise Refused(f"from ({start}) is in the future; it is {int(now)} now, in Unix seconds", field="from")
        # Nothing is older than what is kept, or newer than now.
        return max(start, int(now - kept_s)), min(end, int(now) + 1)


def _known(series: Sequence[str]) -> tuple[str, ...]:
    for name in series:
        if name not in SERIES:
            raise Refused(f"there is no series {name!r:.60}; {nearest(name, SERIES)}", field="series")
    return tuple(dict.fromkeys(series)) or SERIES
