"""The blocks of jobs. Jobs with consecutive numbers share a block, so that many short jobs need few rows.

Within a block the number of a series identifies its job, launch and device (`first_series`).
"""

import logging
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from corral.features.history.recording.file import Block, HistoryFile
from corral.features.history.recording.levels import HistoryLevel
from corral.features.history.recording.readings import JOBS_A_BLOCK, SUMMED, TOGETHER, JobPart, jobs_key
from corral.features.history.recording.rollup import COLUMNS, Array, RollUps, fold, joined, roll_ups_of, selected
from corral.features.history.recording.series import SERIES, DeviceReadings

logger = logging.getLogger(__name__)

SERIES_A_PART = 16
"""The numbers reserved for the series of a part of a job; the first of them are used."""

_PARTS = TOGETHER + 1
_LAUNCHES = 1024
"""Only this many of the last launches of a job are distinguished."""

_SERIES_A_JOB = _LAUNCHES * _PARTS * SERIES_A_PART

_FORMAT = 1
_HEAD = struct.Struct("<BII")
"""The format, and how many steps and buckets there are."""

_LENGTH = struct.Struct("<I")
"""Before each piece: how many bytes it has."""

_MOST_PIECES = 12
"""Steps are added to a block as one more piece. A block that would reach this many pieces is packed anew, as one."""

_DIFFERENCES = ("series", "start", "owner", "bucket")
"""Columns that grow or stay: the differences are small, and mostly the same."""

_KINDS = {
    "series": "<i4",
    "start": "<i8",
    "count": "<i4",
    "total": "<f8",
    "least": "<f8",
    "most": "<f8",
    "covered_s": "<f4",
    "owner": "<i4",
    "bucket": "<i4",
    "number": "<i4",
}

NewJobReadings = Sequence[tuple[JobPart, DeviceReadings]]


def first_series(part: JobPart) -> int:
    """The number of a part's first series within its block."""
    slot, launch = part.sequence % JOBS_A_BLOCK, part.launch % _LAUNCHES
    return ((slot * _LAUNCHES + launch) * _PARTS + part.part) * SERIES_A_PART


def launch_and_part(series: Array) -> tuple[Array, Array]:
    """Return the launch numbers and the part numbers that these series numbers encode."""
    return series // (_PARTS * SERIES_A_PART) % _LAUNCHES, series // SERIES_A_PART % _PARTS


def launch_number(attempt: int) -> int:
    """Return the number of a launch, as in `launch_and_part`."""
    return attempt % _LAUNCHES


def job_blocks_with(
    file: HistoryFile, levels: Sequence[HistoryLevel], key: str, readings: NewJobReadings
) -> Iterator[Block]:
    """Yield the blocks, at each level, that these readings belong to, together with their earlier content."""
    new = _rolled(readings, levels[0].step_s)
    for level in levels:
        new = fold(new, level.step_s)
        block_of = new.start // level.block_s * level.block_s
        starts = np.unique(block_of).tolist()
        for start in starts:
            there, added = _block(file, level, key, start), selected(new, block_of == start)
            yield Block(key, level.step_s, start, _with(there, added, level.step_s, f"{key} from {start} on"))
            # A block with new steps is written with them above, and must not be written again without.
            if not there and start - level.block_s not in starts:
                yield from _closed(file, level, key, start - level.block_s)


def job_roll_ups_between(
    file: HistoryFile, level: HistoryLevel, sequence: int, readings: NewJobReadings, *, span: tuple[int, int]
) -> RollUps:
    """Return a job's roll-ups at a level, from the file and from these readings, in a span without its end.

    Some may be of one step. `readings` may also hold readings of other jobs.
    """
    start, end = span
    key = jobs_key(sequence)
    first = first_series(JobPart(sequence, 0, 0))
    blocks = file.blocks(key, level.step_s, start // level.block_s * level.block_s, end - 1)
    own = [one for one in readings if one[0].sequence == sequence]
    pieces = [piece for begin, data in blocks for piece in _unpacked(data, f"{key} from {begin} on")]
    found = []
    for part in (*pieces, _rolled(own, level.step_s)):
        low, high = np.searchsorted(part.series, (first, first + _SERIES_A_JOB)).tolist()
        wanted = np.zeros(len(part), bool)
        wanted[low:high] = True
        wanted &= (part.start > start - level.step_s) & (part.start < end)
        found.append(selected(part, wanted))
    return joined(found)


def of_whole_job(steps: RollUps, devices: int, step_s: int) -> RollUps:
    """Return a job's roll-ups (`job_roll_ups_between`) as steps of the plain series, over all its devices.

    For several devices the summed series are their sum; the other series merge the readings into one distribution.
    """
    _, part = launch_and_part(steps.series)
    series = steps.series % SERIES_A_PART
    together = part == TOGETHER
    if devices > 1:
        summed = np.isin(series, [SERIES.index(name) for name in SUMMED])
        wanted = together == summed
        covered_s = np.where(together, steps.covered_s, steps.covered_s / devices)
    else:
        wanted, covered_s = ~together, steps.covered_s
    return fold(selected(replace(steps, series=series, covered_s=covered_s), wanted), step_s)


def of_devices(steps: RollUps, attempt: int, numbers: range, step_s: int) -> RollUps:
    """Return the readings of these devices in one launch (`job_roll_ups_between`), as steps of the plain series.

    For several devices all series merge the readings into one distribution, the summed ones too.
    """
    launch, part = launch_and_part(steps.series)
    wanted = (launch == launch_number(attempt)) & (part >= numbers.start) & (part < min(numbers.stop, TOGETHER))
    covered_s = steps.covered_s / len(numbers)
    plain = replace(steps, series=steps.series % SERIES_A_PART, covered_s=covered_s)
    return fold(selected(plain, wanted), step_s)


def pack(steps: RollUps) -> bytes:
    """A piece of these steps: the columns of all series together, for many jobs have few steps each."""
    parts = [_HEAD.pack(_FORMAT, len(steps), len(steps.owner))]
    for name in COLUMNS:
        column = getattr(steps, name)
        if name in _DIFFERENCES:
            column = np.diff(column, prepend=0)
        column = column.astype(_KINDS[name])
        # Similar bytes stand together.
        parts.append(column.view("u1").reshape(len(column), column.itemsize).T.tobytes())
    packed = zlib.compress(b"".join(parts), 6)
    return _LENGTH.pack(len(packed)) + packed


def unpack(data: bytes) -> Iterator[RollUps]:
    """The steps of each piece of a block. Raises ValueError if these bytes are none."""
    for piece in _pieces(data):
        try:
            plain = zlib.decompress(piece)
            form, rows, buckets = _HEAD.unpack_from(plain)
        except (zlib.error, struct.error) as error:
            raise ValueError(str(error)) from None
        if form != _FORMAT:
            raise ValueError("a block of another format")
        at, columns = _HEAD.size, {}
        for name in COLUMNS:
            kind, length = np.dtype(_KINDS[name]), buckets if name in ("owner", "bucket", "number") else rows
            planes = np.frombuffer(plain, "u1", length * kind.itemsize, at).reshape(kind.itemsize, length)
            column = np.ascontiguousarray(planes.T).reshape(-1).view(kind)
            column = column.astype("i8" if kind.kind == "i" else "f8")
            columns[name] = np.cumsum(column) if name in _DIFFERENCES else column
            at += length * kind.itemsize
        yield RollUps(**columns)


def _pieces(data: bytes) -> list[bytes]:
    found: list[bytes] = []
    at = 0
    while at < len(data) or not found:
        if len(data) - at < _LENGTH.size:
            raise ValueError("a block that ends too early")
        (length,) = _LENGTH.unpack_from(data, at)
        found.append(data[at + _LENGTH.size : at + _LENGTH.size + length])
        at += _LENGTH.size + length
    return found


def _block(file: HistoryFile, level: HistoryLevel, key: str, start: int) -> bytes:
    """Return the block that begins at `start`, or b""."""
    return b"".join(data for _, data in file.blocks(key, level.step_s, start, start))


def _closed(file: HistoryFile, level: HistoryLevel, key: str, start: int) -> Iterator[Block]:
    """Yield a finished block as one piece, if it has more."""
    there = _block(file, level, key, start)
    pieces = _unpacked(there, f"{key} from {start} on") if there else []
    if len(pieces) > 1:
        yield Block(key, level.step_s, start, pack(fold(joined(pieces), level.step_s)))


def _with(there: bytes, added: RollUps, step_s: int, called: str) -> bytes:
    """Return a block with more steps: as one more piece, or packed anew if it has many."""
    try:
        if not there or len(_pieces(there)) + 1 < _MOST_PIECES:
            return there + pack(added)
    except ValueError:
        # Unpacking reports the damage.
        pass
    return pack(fold(joined([*_unpacked(there, called), added]), step_s))


def _rolled(readings: NewJobReadings, step_s: int) -> RollUps:
    firsts = [first_series(part) for part, _ in readings]
    return roll_ups_of([reading for _, reading in readings], step_s, first_series=firsts)


def _unpacked(data: bytes, called: str) -> list[RollUps]:
    try:
        return list(unpack(data))
    except ValueError as error:
        logger.warning("a block of the history of %s cannot be read: %s", called, error)
        return []
