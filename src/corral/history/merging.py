"""What waits to be written together with what is in the file: blocks to write, and points to tell."""

import logging
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from corral.history.blocks import pack, unpack
from corral.history.file import Block, HistoryFile
from corral.history.levels import HistoryLevel
from corral.history.rollup import NO_ROLL_UPS, Array, RollUps, fold, joined, quantile, roll_ups_of, selected
from corral.history.series import SERIES, DeviceReadings
from corral.model.answers.history import HistoryPoint

logger = logging.getLogger(__name__)


def blocks_with(
    file: HistoryFile, levels: Sequence[HistoryLevel], device: str, readings: Iterable[DeviceReadings]
) -> list[Block]:
    """The blocks, at each level, that these readings of a device belong to, with what they have already."""
    finest = roll_ups_of(tuple(readings), levels[0].step_s)
    blocks = []
    for level in levels:
        new = fold(finest, level.step_s)
        block_of = new.start // level.block_s * level.block_s
        for start in np.unique(block_of).tolist():
            there = [_unpacked(device, start, data) for _, data in file.blocks(device, level.step_s, start, start)]
            whole = fold(joined([*there, selected(new, block_of == start)]), level.step_s)
            blocks.append(Block(device, level.step_s, start, pack(whole)))
    return blocks


def roll_ups_between(
    file: HistoryFile,
    level: HistoryLevel,
    device: str,
    readings: Iterable[DeviceReadings],
    *,
    span: tuple[int, int],
    series: Sequence[int],
) -> RollUps:
    """A device's roll-ups of some series at a level, in the file and of these readings, in a span without its end.

    Some may be of one step.
    """
    start, end = span
    blocks = file.blocks(device, level.step_s, start // level.block_s * level.block_s, end - 1)
    waiting = roll_ups_of(tuple(readings), level.step_s)
    parts = [*(_unpacked(device, begin, data) for begin, data in blocks), waiting]
    return joined([selected(part, _within(part, series, start - level.step_s, end)) for part in parts])


def points_of(found: RollUps, name: str, step_s: int, shown: Callable[[float], float]) -> tuple[HistoryPoint, ...]:
    """A series as points, of which each is a step of `step_s`; `shown` makes wall-clock times of theirs."""
    of = fold(selected(found, found.series == SERIES.index(name)), step_s)
    columns: list[Array] = [
        *(of.start, of.least, of.total / of.count, of.most, quantile(of, 0.95)),
        np.minimum(of.covered_s / step_s, 1.0),
    ]
    return tuple(
        HistoryPoint(int(shown(at)), least, round(mean, 3), most, round(p95, 3), round(coverage, 3))
        for at, least, mean, most, p95, coverage in zip(*(column.tolist() for column in columns), strict=True)
    )


def _within(part: RollUps, series: Sequence[int], after: int, before: int) -> Array:
    return np.isin(part.series, series) & (part.start > after) & (part.start < before)


def _unpacked(device: str, start: int, data: bytes) -> RollUps:
    try:
        return unpack(data)
    except ValueError as error:
        logger.warning("a block of the history of %s, from %d on, cannot be read: %s", device, start, error)
        return NO_ROLL_UPS
