"""Merges waiting readings with the content of the file: into blocks to write, and into points to answer."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np

from corral.features.history.answers import HistoryPoint
from corral.features.history.recording.blocks import count_pieces, pack, unpack
from corral.features.history.recording.file import Block, HistoryFile
from corral.features.history.recording.levels import HistoryLevel
from corral.features.history.recording.rollup import (
    Array,
    RollUps,
    fold,
    in_order,
    joined,
    of_series,
    part_of,
    parts_by_series,
    quantile,
    roll_ups_of,
    selected,
)
from corral.features.history.recording.series import SERIES, DeviceReadings

logger = logging.getLogger(__name__)

MOST_PIECES = 8
"""A block that reaches this many pieces is packed anew, as one."""


def blocks_with(
    file: HistoryFile, levels: Sequence[HistoryLevel], device: str, readings: Iterable[DeviceReadings]
) -> list[Block]:
    """Return the blocks, at each level, that these readings of a device belong to, together with their earlier
    content.
    """
    blocks = []
    new = roll_ups_of(tuple(readings), levels[0].step_s)
    for level in levels:
        new = fold(new, level.step_s)
        block_of = new.start // level.block_s * level.block_s
        starts = np.unique(block_of).tolist()
        for start in starts:
            there, added = _block(file, level, device, start), selected(new, block_of == start)
            last = start == starts[-1]
            data = _longer(there, added) if last else None
            blocks.append(Block(device, level.step_s, start, data or _whole(there, added, level, device, start)))
            if not there and start - level.block_s not in starts:
                blocks += _closed(file, level, device, start - level.block_s)
    return blocks


def roll_ups_between(
    file: HistoryFile,
    level: HistoryLevel,
    device: str,
    readings: Iterable[DeviceReadings],
    *,
    span: tuple[int, int],
    series: Collection[int],
    buckets: bool = True,
) -> RollUps:
    """Return a device's roll-ups of some series at a level, from the file and these readings, in a span without its
    end.

    They are in order. Without `buckets` they have no quantiles, and are read faster.
    """
    start, end = span
    parts: dict[int, list[RollUps]] = defaultdict(list)
    for begin, data in file.blocks(device, level.step_s, start // level.block_s * level.block_s, end - 1):
        for part in _unpacked(device, begin, data, series, buckets=buckets):
            first, last = np.searchsorted(part.start, (start - level.step_s + 1, end)).tolist()
            parts[int(part.series[0])].append(part_of(part, first, last))
    for part in parts_by_series(roll_ups_of(tuple(readings), level.step_s, series)):
        first, last = np.searchsorted(part.start, (start - level.step_s + 1, end)).tolist()
        parts[int(part.series[0])].append(part_of(part, first, last))
    return joined([part for number in sorted(parts) for part in in_order(parts[number], level.step_s)])


def points_of(found: RollUps, name: str, step_s: int, shown: Callable[[float], float]) -> tuple[HistoryPoint, ...]:
    """A series as points, of which each is a step of `step_s`; `shown` makes wall-clock times of theirs."""
    of = fold(of_series(found, SERIES.index(name)), step_s)
    columns: list[Array] = [
        *(of.start, of.least, np.round(of.total / of.count, 3), of.most, np.round(quantile(of, 0.95), 3)),
        np.round(np.minimum(of.covered_s / step_s, 1.0), 3),
    ]
    return tuple(
        HistoryPoint(int(shown(at)), least, mean, most, p95, coverage)
        for at, least, mean, most, p95, coverage in zip(*(column.tolist() for column in columns), strict=True)
    )


def _block(file: HistoryFile, level: HistoryLevel, device: str, start: int) -> bytes:
    """Return the block that begins at `start`, or b""."""
    return b"".join(data for _, data in file.blocks(device, level.step_s, start, start))


def _longer(there: bytes, added: RollUps) -> bytes | None:
    """Return a block with more steps as one more piece; None if it has too many pieces or cannot be read."""
    try:
        return there + pack(added, apart=False) if not there or count_pieces(there) + 1 < MOST_PIECES else None
    except ValueError:
        return None


def _whole(there: bytes, added: RollUps, level: HistoryLevel, device: str, start: int) -> bytes:
    """Return a block with more steps, as one piece."""
    parts = _unpacked(device, start, there) if there else []
    return pack(fold(joined([*parts, added]), level.step_s))


def _closed(file: HistoryFile, level: HistoryLevel, device: str, start: int) -> Iterator[Block]:
    """Yield a finished block as one piece, if it has more."""
    there = _block(file, level, device, start)
    parts = _unpacked(device, start, there) if there else []
    if len(parts) > len({int(part.series[0]) for part in parts}):
        yield Block(device, level.step_s, start, pack(fold(joined(parts), level.step_s)))


def _unpacked(
    device: str, start: int, data: bytes, series: Collection[int] | None = None, *, buckets: bool = True
) -> list[RollUps]:
    try:
        return list(unpack(data, series, buckets=buckets))
    except ValueError as error:
        logger.warning("a block of the history of %s, from %d on, cannot be read: %s", device, start, error)
        return []
