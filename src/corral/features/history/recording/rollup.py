"""The arithmetic of roll-ups. Pure.

A step is a stretch of time of one series. It keeps count, sum, least, most and covered time of its readings, and their
counts by the buckets of a DDSketch. So steps can be merged in any order and at any level. Mean, extremes and quantiles
of the result are those of all the readings.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from ddsketch.mapping import LogarithmicMapping
from numpy.typing import NDArray

from corral.features.history.recording.series import DeviceReadings

RELATIVE_ERROR = 0.01
"""A quantile is at most this part of itself away from the reading that has its rank."""

_MAPPING = LogarithmicMapping(RELATIVE_ERROR)
_SMALLEST = 1e-6
"""Readings nearer to 0 count as 0."""
_KEY_OF_ONE = 2000
"""Added to the mapping's key, so that the buckets of positive numbers are positive. Negative numbers have the negated
buckets, and 0 is a bucket of its own.
"""

_REMEMBERED = 16_384
"""The number of readings whose buckets are cached: most readings are whole numbers and repeat."""

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class RollUps:
    """Roll-ups of several series as columns of one length, ordered by series and start, and their buckets.

    Attributes:
        series: the number of the series.
        start: when the step began, Unix seconds.
        count, total, least, most: count, sum, minimum and maximum of its readings.
        covered_s: the time that its readings cover.
        owner, bucket, number: for each bucket that is not empty, the row of its step, its key, and its number of
            readings. Ordered by owner and bucket.
    """

    series: Array
    start: Array
    count: Array
    total: Array
    least: Array
    most: Array
    covered_s: Array
    owner: Array
    bucket: Array
    number: Array

    def __len__(self) -> int:
        return len(self.start)


COLUMNS = tuple(field.name for field in fields(RollUps))
_KINDS = dict.fromkeys(("series", "start", "count", "owner", "bucket", "number"), "i8")
NO_ROLL_UPS = RollUps(**{name: np.empty(0, _KINDS.get(name, "f8")) for name in COLUMNS})


@lru_cache(_REMEMBERED)
def bucket_of(value: float) -> int:
    """The bucket of a reading."""
    if abs(value) < _SMALLEST:
        return 0
    key = int(_MAPPING.key(abs(value))) + _KEY_OF_ONE
    return key if value > 0 else -key


@lru_cache(_REMEMBERED)
def value_of(bucket: int) -> float:
    """Return the representative reading of a bucket."""
    if bucket == 0:
        return 0.0
    value = float(_MAPPING.value(abs(bucket) - _KEY_OF_ONE))
    return value if bucket > 0 else -value


def roll_ups_of(
    readings: Sequence[DeviceReadings],
    step_s: int,
    only: Collection[int] | None = None,
    *,
    first_series: Sequence[int] | None = None,
) -> RollUps:
    """Return the steps of these readings, which may be in any order; with `only` of some series.

    `first_series` has, for each reading, the number that its first series gets; 0 if it is not given.
    """
    if not readings:
        return NO_ROLL_UPS
    # Only here NaN stands for values that could not be read.
    table = np.array([reading.values for reading in readings], "f8")
    known = ~np.isnan(table)
    if only is not None:
        known &= np.isin(np.arange(table.shape[1]), list(only))
    row, series = np.nonzero(known)
    start = np.array([int(reading.at) for reading in readings])[row]
    covered_s = np.array([reading.covered_s for reading in readings])[row]
    value = table[known]
    if first_series is not None:
        series = series + np.array(first_series)[row]
    distinct, which = np.unique(value, return_inverse=True)
    buckets = np.array([bucket_of(one) for one in distinct.tolist()], "i8")[which]
    ones = np.ones(len(row), "i8")
    owner = np.arange(len(row))
    return fold(RollUps(series, start, ones, value, value, value, covered_s, owner, buckets, ones), step_s)


def joined(parts: Sequence[RollUps]) -> RollUps:
    """Return all these steps one after the other. Some may have the same series and time: `fold` merges them."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return NO_ROLL_UPS
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS if name != "owner"}
    before = accumulate((len(part) for part in parts[:-1]), initial=0)
    owner = np.concatenate([part.owner + first for part, first in zip(parts, before, strict=True)])
    return RollUps(**columns, owner=owner)


def fold(steps: RollUps, step_s: int) -> RollUps:
    """These steps as steps of `step_s`, which is a multiple of theirs."""
    if not len(steps):
        return NO_ROLL_UPS
    start = steps.start // step_s * step_s
    if _in_order(steps.series, start):
        # No steps merge, so the buckets stay as they are.
        return replace(steps, start=start)
    order = np.lexsort((start, steps.series))
    series, start = steps.series[order], start[order]
    new = np.ones(len(order), bool)
    new[1:] = (series[1:] != series[:-1]) | (start[1:] != start[:-1])
    first = np.flatnonzero(new)
    group = np.empty(len(order), "i8")
    group[order] = np.cumsum(new) - 1
    owner, bucket, number = _merged(group[steps.owner], steps.bucket, steps.number)
    return RollUps(
        series[first],
        start[first],
        np.add.reduceat(steps.count[order], first),
        np.add.reduceat(steps.total[order], first),
        np.minimum.reduceat(steps.least[order], first),
        np.maximum.reduceat(steps.most[order], first),
        np.add.reduceat(steps.covered_s[order], first),
        owner,
        bucket,
        number,
    )


def selected(steps: RollUps, wanted: Array) -> RollUps:
    """Return the steps at which `wanted` is true."""
    if wanted.all():
        return steps
    rows = np.cumsum(wanted) - 1
    buckets = wanted[steps.owner]
    columns = {name: getattr(steps, name)[wanted] for name in COLUMNS[:7]}
    return RollUps(
        **columns, owner=rows[steps.owner[buckets]], bucket=steps.bucket[buckets], number=steps.number[buckets]
    )


def parts_by_series(steps: RollUps) -> Iterator[RollUps]:
    """The steps of each series, of steps that are in order."""
    bounds = [0, *(np.flatnonzero(np.diff(steps.series)) + 1).tolist(), len(steps)]
    for begin, end in pairwise(bounds):
        if begin < end:
            yield part_of(steps, begin, end)


def of_series(steps: RollUps, number: int) -> RollUps:
    """Return the steps of one series, from ordered steps."""
    begin, end = np.searchsorted(steps.series, (number, number + 1)).tolist()
    return part_of(steps, begin, end)


def part_of(steps: RollUps, begin: int, end: int) -> RollUps:
    """Return the steps from row `begin` to row `end` (exclusive)."""
    if (begin, end) == (0, len(steps)):
        return steps
    first, last = np.searchsorted(steps.owner, (begin, end)).tolist()
    columns = {name: getattr(steps, name)[begin:end] for name in COLUMNS[:7]}
    buckets = {name: getattr(steps, name)[first:last] for name in COLUMNS[8:]}
    return RollUps(**columns, owner=steps.owner[first:last] - begin, **buckets)


def in_order(parts: Sequence[RollUps], step_s: int) -> list[RollUps]:
    """Return the steps of one series in parts that follow each other: overlapping parts are merged.

    The steps of each part must be ordered. Parts that do not overlap are left as they are, at no cost.
    """
    groups: list[tuple[int, int, list[RollUps]]] = []
    for part in parts:
        if not len(part):
            continue
        begin, end, group = int(part.start[0]), int(part.start[-1]), [part]
        while groups and begin <= groups[-1][1]:
            before = groups.pop()
            begin, end, group = min(begin, before[0]), max(end, before[1]), before[2] + group
        groups.append((begin, end, group))
    return [group[0] if len(group) == 1 else fold(joined(group), step_s) for _, _, group in groups]


def quantile(steps: RollUps, q: float) -> Array:
    """Return for each step the least reading `r` so that a fraction `q` of its readings is at most `r`, within
    `RELATIVE_ERROR`.

    Its rank is `q * count`, rounded up (nearest rank): of two readings the greater one for 0.95.
    """
    if not len(steps):
        return np.empty(0)
    # A product that is whole but for its last bit is not rounded up.
    rank = np.maximum(np.ceil(q * steps.count - 1e-6), 1).astype("i8") - 1
    # Counted over all steps at once: a step's first bucket begins where the steps before it end.
    passed = np.cumsum(steps.number)
    before = np.concatenate([[0], np.cumsum(steps.count)[:-1]])
    bucket = steps.bucket[np.searchsorted(passed, before + rank, side="right")]
    distinct, which = np.unique(bucket, return_inverse=True)
    values = np.array([value_of(int(one)) for one in distinct])[which]
    found: Array = np.clip(values, steps.least, steps.most)
    return found


def _in_order(series: Array, start: Array) -> bool:
    next_series, next_start = np.diff(series), np.diff(start)
    return bool(np.all((next_series > 0) | ((next_series == 0) & (next_start > 0))))


def _merged(owner: Array, bucket: Array, number: Array) -> tuple[Array, Array, Array]:
    order = np.lexsort((bucket, owner))
    owner, bucket = owner[order], bucket[order]
    new = np.ones(len(order), bool)
    new[1:] = (owner[1:] != owner[:-1]) | (bucket[1:] != bucket[:-1])
    first = np.flatnonzero(new)
    return owner[first], bucket[first], np.add.reduceat(number[order], first)
