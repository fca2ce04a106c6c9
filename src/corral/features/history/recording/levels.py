"""The levels at which readings are kept, and which of them answers a question. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

MOST_POINTS = 1000
"""The most points of one series in an answer."""

_MOST_READ = 4000
"""The most steps of a level read for an answer, which bounds its time: a week is answered by the hour."""

HOUR_S = 3600
DAY_S = 24 * HOUR_S

_STEPS_S = (
    *(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800),
    *(HOUR_S, 2 * HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S, DAY_S),
)
"""The steps of answers: usual values, each a multiple of the level that it is computed from."""


@dataclass(frozen=True, slots=True)
class HistoryLevel:
    """One level: steps of `step_s`, packed into blocks of `block_s`, each kept `kept_s` after its end."""

    step_s: int
    block_s: int
    kept_s: int


SECONDS = HistoryLevel(1, 300, HOUR_S)


def kept_levels(retention_days: int) -> tuple[HistoryLevel, ...]:
    """Return all levels, the finest first. With 0 days only the last hour's readings are kept."""
    if retention_days == 0:
        return (SECONDS,)
    return (
        SECONDS,
        HistoryLevel(10, HOUR_S, DAY_S),
        HistoryLevel(60, HOUR_S, retention_days * DAY_S),
        HistoryLevel(900, 12 * HOUR_S, retention_days * DAY_S),
        HistoryLevel(HOUR_S, 6 * HOUR_S, 365 * DAY_S),
    )


def choose(
    levels: Sequence[HistoryLevel], start: int, end: int, now: float, interval_s: float
) -> tuple[HistoryLevel, int]:
    """Return the level to read for the time from `start` to `end`, and the step of the answer in seconds.

    The step is the finest with at most `MOST_POINTS` points, and no finer than the sampling. The level is the coarsest
    that still gives this step, reaches back far enough and has few enough steps to read. If no level reaches back far
    enough, it is the one that reaches back farthest.
    """
    reaching = [level for level in levels if start >= now - level.kept_s] or [max(levels, key=_kept_s)]
    quick = [level for level in reaching if points(start, end, level.step_s) <= _MOST_READ] or [reaching[-1]]
    least_s = max(quick[0].step_s, interval_s)
    step_s = next((s for s in _STEPS_S if s >= least_s and points(start, end, s) <= MOST_POINTS), None)
    if step_s is None:
        # Longer than anything that is kept, but no reason for more points.
        step_s = -(-(end - start) // (MOST_POINTS - 1) // DAY_S) * DAY_S
    return max((level for level in quick if level.step_s <= step_s), key=_step_s), step_s


def steps_within(
    levels: Sequence[HistoryLevel], start: float, end: float, now: float
) -> tuple[HistoryLevel, tuple[int, int]]:
    """Return the level with the finest steps within a time, and from when to when (exclusive) these are.

    The level reaches back far enough and has few enough steps to read; otherwise it is the one that reaches back
    farthest. Steps that are only partly within the time are left out.
    """

    def within(level: HistoryLevel) -> tuple[int, int]:
        return math.ceil(start / level.step_s) * level.step_s, math.floor(end / level.step_s) * level.step_s

    for level in levels:
        first, last = within(level)
        if start >= now - level.kept_s and last - first <= _MOST_READ * level.step_s:
            return level, (first, last)
    farthest = max(levels, key=_kept_s)
    return farthest, within(farthest)


def points(start: int, end: int, step_s: int) -> int:
    """Return the number of steps that overlap the time from `start` to `end` (exclusive)."""
    return (end - 1) // step_s - start // step_s + 1


def _kept_s(level: HistoryLevel) -> int:
    return level.kept_s


def _step_s(level: HistoryLevel) -> int:
    return level.step_s
