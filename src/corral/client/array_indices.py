"""The indices of an array as users write them: "0-9%2", "0,3,5-7"."""

from __future__ import annotations

import re

from corral.model.errors import Refused
from corral.model.units import WHOLE, is_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.submission import ArraySpec

MAX_ARRAY_SIZE = 10_000
"""The most elements of an array."""

_ELEMENTS = rf"({WHOLE})(?:-({WHOLE})(?::({WHOLE}))?)?"


def parse_array(text: str, *, field: str = "array") -> ArraySpec:
    """The array of these indices. Raises Refused as `parse_indices` does."""
    from corral.model.submission import ArraySpec

    return ArraySpec(*parse_indices(text, field=field))


def parse_indices(text: str, *, field: str = "array") -> tuple[tuple[int, ...], int | None]:
    """Indices in ascending order, without duplicates: "0-9", "0,3,5-7", "0-10:2"; and N of a "%N" after them.

    So many run at once, None is no limit. Raises Refused for other forms, and for more than `MAX_ARRAY_SIZE` elements.
    """
    body, percent, limit = text.strip().partition("%")
    if percent and not (is_whole(limit) and int(limit) > 0):
        raise Refused(f"{field}: {limit!r:.60} after % is not a number of jobs; write one such as 0-9%2", field=field)
    indices: set[int] = set()
    for part in body.split(","):
        indices.update(_span(part.strip(), field))
    if len(indices) > MAX_ARRAY_SIZE:
        raise _too_many(len(indices), field)
    return tuple(sorted(indices)), int(limit) if percent else None


def _span(part: str, field: str) -> range:
    match = re.fullmatch(_ELEMENTS, part)
    if match is None:
        raise Refused(f"{field}: {part!r} is not an index or range; write 0-9, 0,3,5-7 or 0-10:2", field=field)
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first or step < 1:
        raise Refused(f"{field}: {part!r} is empty; a range goes up in steps of 1 or more", field=field)
    size = (last - first) // step + 1
    if size > MAX_ARRAY_SIZE:
        raise _too_many(size, field)
    return range(first, last + 1, step)


def _too_many(size: int, field: str) -> Refused:
    return Refused(f"{field}: {size:,} elements are too many; an array has at most {MAX_ARRAY_SIZE:,}", field=field)
