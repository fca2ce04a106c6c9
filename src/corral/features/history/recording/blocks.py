"""Packs a block of steps into bytes and back. Pure.

A block is a sequence of pieces. New steps are appended as a new piece; from time to time all pieces are packed again
into one. That piece stores the steps and the histogram buckets of each series separately, so a reader unpacks only the
parts that it needs.
"""

import struct
import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterator

import numpy as np

from corral.features.history.recording.rollup import Array, RollUps, parts_by_series

_FORMAT = 2

_HEAD = struct.Struct("<IBH")
"""The length of a piece with its head, its format, and how many parts it has."""
_PART = struct.Struct("<HIIII")
"""Which series a part is of, how many steps and buckets it has, and the lengths of the sections of the two."""
_SEVERAL = 0xFFFF
"""A part of several series: their numbers are the first column of its steps."""

_INTEGERS = ("<i1", "<i2", "<i4", "<i8")
_LARGEST = tuple(int(np.iinfo(kind).max) for kind in _INTEGERS)
_FLOATS = ("total", "least", "most")
_PLAIN, _DEFLATED = b"\0", b"\1"
_LEAST_BYTES_A_STEP = 3 * 1 + 4 + 3 * 8
"""The least size of the columns of a step: three integers, the covered time, and the floats."""
_SMALL = 100
"""Fewer bytes than this are not worth compressing."""


def pack(steps: RollUps, *, apart: bool = True) -> bytes:
    """Pack steps, ordered by series and start, into a piece: with each series `apart`, or in one part."""
    if apart or not len(steps):
        parts = [(int(part.series[0]), part) for part in parts_by_series(steps)]
    else:
        parts = [(_SEVERAL, steps)]
    entries, sections = [], []
    for number, part in parts:
        series = _integers(_steps_between(part.series)) if number == _SEVERAL else b""
        of_steps, of_buckets = _section(series + _steps_of(part)), _section(_buckets_of(part))
        entries.append(_PART.pack(number, len(part), len(part.owner), len(of_steps), len(of_buckets)))
        sections += [of_steps, of_buckets]
    body = b"".join((*entries, *sections))
    return _HEAD.pack(_HEAD.size + len(body), _FORMAT, len(entries)) + body


def count_pieces(data: bytes) -> int:
    """Return the number of pieces of a block. Raises ValueError if the bytes are no block."""
    return sum(1 for _ in _pieces(data))


def unpack(data: bytes, series: Collection[int] | None = None, *, buckets: bool = True) -> Iterator[RollUps]:
    """Yield the steps of some series (None: of all) in a block: one part for each series of each piece, in order of
    start.

    Without `buckets` the steps have no buckets, and so no quantiles. Raises ValueError if the bytes are no block.
    """
    try:
        for begin, count in _pieces(data):
            at = begin + count * _PART.size
            for number, rows, filled, steps_size, buckets_size in _PART.iter_unpack(data[begin:at]):
                if series is None or number == _SEVERAL or number in series:
                    of_buckets = _opened(data, at + steps_size, buckets_size) if buckets else None
                    part = _part(number, rows, filled, _opened(data, at, steps_size), of_buckets)
                    yield from (one for one in parts_by_series(part) if series is None or one.series[0] in series)
                at += steps_size + buckets_size
    except (zlib.error, struct.error, IndexError) as error:
        raise ValueError(str(error)) from None


def _pieces(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the position of each piece's table of parts, and the number of its parts."""
    if not data:
        raise ValueError("a block without anything in it")
    at = 0
    while at < len(data):
        if len(data) - at < _HEAD.size:
            raise ValueError("a block that ends too early")
        size, form, count = _HEAD.unpack_from(data, at)
        if form != _FORMAT:
            raise ValueError("a block of another format")
        if not _HEAD.size + count * _PART.size <= size <= len(data) - at:
            raise ValueError("a piece whose length cannot be")
        yield at + _HEAD.size, count
        at += size


def _steps_of(part: RollUps) -> bytes:
    filled = np.bincount(part.owner, minlength=len(part))
    # Differences are small numbers, and mostly equal.
    whole = (_steps_between(part.start), part.count, filled)
    return b"".join(
        (
            *map(_integers, whole),
            _shuffled(part.covered_s.astype("<f4")),
            *(_shuffled(getattr(part, name).astype("<f8")) for name in _FLOATS),
        )
    )


def _buckets_of(part: RollUps) -> bytes:
    return _integers(_steps_between(part.bucket)) + _integers(part.number)


def _part(number: int, rows: int, filled: int, of_steps: bytes, of_buckets: bytes | None) -> RollUps:
    if rows * _LEAST_BYTES_A_STEP > len(of_steps):
        # A damaged number would take all memory that there is.
        raise ValueError("more steps than there are bytes")
    at = 0
    if number == _SEVERAL:
        between, at = _integers_in(of_steps, rows, at)
        series = np.cumsum(between, dtype="i8")
    else:
        series = np.full(rows, number)
    difference, at = _integers_in(of_steps, rows, at)
    count, at = _integers_in(of_steps, rows, at)
    each, at = _integers_in(of_steps, rows, at)
    covered, at = _unshuffled(of_steps, "<f4", rows, at)
    total, at = _unshuffled(of_steps, "<f8", rows, at)
    least, at = _unshuffled(of_steps, "<f8", rows, at)
    most, at = _unshuffled(of_steps, "<f8", rows, at)
    owner = bucket = amount = np.empty(0, "i4")
    if of_buckets is not None:
        step, at = _integers_in(of_buckets, filled, 0)
        amount, at = _integers_in(of_buckets, filled, at)
        if int(each.sum(dtype="i8")) != filled:
            raise ValueError("steps with other buckets than there are")
        # There are many, and half as much memory is moved in half the time.
        owner, bucket = np.repeat(np.arange(rows, dtype="i4"), each), np.cumsum(step, dtype="i4")
    return RollUps(
        *(series, np.cumsum(difference, dtype="i8"), count.astype("i8"), total, least, most, covered.astype("f8")),
        *(owner, bucket, amount.astype("i4")),
    )


def _section(plain: bytes) -> bytes:
    return _PLAIN + plain if len(plain) < _SMALL else _DEFLATED + zlib.compress(plain, 6)


def _opened(data: bytes, at: int, size: int) -> bytes:
    kind, section = data[at : at + 1], data[at + 1 : at + size]
    if kind not in (_PLAIN, _DEFLATED):
        raise ValueError("a section of another kind")
    return section if kind == _PLAIN else zlib.decompress(section)


def _integers(column: Array) -> bytes:
    """The numbers in as few bytes each as the largest needs, and before them which."""
    most = max(int(column.max()), -int(column.min()) - 1) if len(column) else 0
    code = bisect_left(_LARGEST, most)
    return bytes([code]) + _shuffled(column.astype(_INTEGERS[code]))


def _integers_in(plain: bytes, length: int, at: int) -> tuple[Array, int]:
    return _unshuffled(plain, _INTEGERS[plain[at]], length, at + 1)


def _steps_between(column: Array) -> Array:
    between = column.copy()
    between[1:] -= column[:-1]
    return between


def _shuffled(column: Array) -> bytes:
    """Return all first bytes of the numbers, then all second bytes: similar bytes stand together and compress
    better.
    """
    return column.view("u1").reshape(len(column), column.itemsize).T.tobytes()


def _unshuffled(plain: bytes, kind: str, length: int, at: int) -> tuple[Array, int]:
    size = int(kind[2:])
    planes = np.frombuffer(plain, "u1", length * size, at).reshape(size, length)
    return np.ascontiguousarray(planes.T).reshape(-1).view(kind), at + length * size
