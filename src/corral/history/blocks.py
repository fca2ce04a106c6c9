"""A block of steps as bytes and back. Pure."""

import zlib

import numpy as np

from corral.history.rollup import COLUMNS, Array, RollUps

_FORMAT = 1
_COUNTS = ("count", "number")


def pack(steps: RollUps) -> bytes:
    """The steps as bytes, as few as can be had quickly."""
    parts = [bytes([_FORMAT]), np.array([len(steps), len(steps.owner)], "<u4").tobytes()]
    for name in COLUMNS:
        column = getattr(steps, name)
        if name in _COUNTS or name in ("series", "start", "owner", "bucket"):
            # Differences are small numbers, and mostly the same one.
            column = np.diff(column, prepend=0) if name not in _COUNTS else column
            parts.append(_shuffled(column.astype("<i8" if name == "start" else "<i4")))
        else:
            parts.append(_shuffled(column.astype("<f4" if name == "covered_s" else "<f8")))
    return zlib.compress(b"".join(parts), 6)


def unpack(data: bytes) -> RollUps:
    """The steps in these bytes. Raises ValueError where they are none."""
    try:
        plain = zlib.decompress(data)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if plain[:1] != bytes([_FORMAT]):
        raise ValueError("a block of another format")
    rows, buckets = (int(number) for number in np.frombuffer(plain, "<u4", 2, 1))
    at, columns = 9, {}
    for place, name in enumerate(COLUMNS):
        length = rows if place < 7 else buckets
        whole = name in _COUNTS or name in ("series", "start", "owner", "bucket")
        kind = ("<i8" if name == "start" else "<i4") if whole else ("<f4" if name == "covered_s" else "<f8")
        column = _unshuffled(plain, kind, length, at)
        at += length * np.dtype(kind).itemsize
        column = column.astype("i8" if whole else "f8")
        columns[name] = np.cumsum(column) if whole and name not in _COUNTS else column
    return RollUps(**columns)


def _shuffled(column: Array) -> bytes:
    """All first bytes of the numbers, then all second ones: like bytes are together, which compresses better."""
    return column.view("u1").reshape(len(column), column.itemsize).T.tobytes()


def _unshuffled(plain: bytes, kind: str, length: int, at: int) -> Array:
    size = np.dtype(kind).itemsize
    planes = np.frombuffer(plain, "u1", length * size, at).reshape(size, length)
    return np.ascontiguousarray(planes.T).reshape(-1).view(kind)
