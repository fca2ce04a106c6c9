"""Parse the indices of an array, "0-9%2" or "0,3,5-7", and ids that name elements by them, "17_[3-5]"."""

from __future__ import annotations

import re

from corral.core.model.errors import Refused
from corral.core.model.units import WHOLE, is_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.core.model.jobs.submission import ArraySpec

MAX_ARRAY_SIZE = 10_000
"""The most elements of an array."""

MOST_SPANS = 8
"""The most ranges of indices in a text for a person."""

_ELEMENTS = rf"({WHOLE})(?:-({WHOLE})(?::({WHOLE}))?)?"
_SEVERAL = rf"({WHOLE})_(?![0-9]+$)(?:\[([^\]]*)\]|(.*))"


def parse_array(text: str, *, field: str = "array") -> ArraySpec:
    """The array that this text describes. Raises Refused as `parse_indices` does."""
    from corral.core.model.jobs.submission import ArraySpec

    return ArraySpec(*parse_indices(text, field=field))


def parse_indices(
    text: str, *, field: str = "array", example: str = "0-9, 0,3,5-7 or 0-10:2"
) -> tuple[tuple[int, ...], int | None]:
    """The indices in ascending order, without duplicates, of "0-9", "0,3,5-7" or "0-10:2"; and N of a "%N" after them.

    N is how many elements run at once, None is no limit. Raises Refused for other forms, and for more than
    `MAX_ARRAY_SIZE` elements.
    """
    body, percent, limit = text.strip().partition("%")
    if percent and not (is_whole(limit) and int(limit) > 0):
        raise Refused(f"{field}: {limit!r:.60} after % is not a number of jobs; write one such as 0-9%2", field=field)
    indices: set[int] = set()
    size = 0
    for part in body.split(","):
        span = _span(part.strip(), field, example)
        size += len(span)
        if size > MAX_ARRAY_SIZE:
            raise _too_many(size, field)
        indices.update(span)
    return tuple(sorted(indices)), int(limit) if percent else None


def named_elements(text: str) -> tuple[str, tuple[int, ...] | None] | None:
    """The array and the indices that an id such as 17_[3-5], 17_3-5 or 17_[1,3] names. 17_* has None: all.

    None for any other text, such as the id of one job or array. Raises Refused as `parse_indices` does.
    """
    match = re.fullmatch(_SEVERAL, text)
    if match is None:
        return None
    array_id, inside = match[1], match[3] if match[2] is None else match[2]
    if inside == "*":
        return array_id, None
    example = f"{array_id}_3, {array_id}_[3-9], {array_id}_[1,3,5-9] or {array_id}_*"
    return array_id, parse_indices(inside, field=f"{text:.60}", example=example)[0]


def in_short(array_id: str, indices: Iterable[int]) -> str:
    """The text for these elements that `named_elements` parses. One element is its id. A long list is cut."""
    found = spans(indices)
    if len(found) == 1 and found[0].isdecimal():
        return f"{array_id}_{found[0]}"
    more = ["..."] if len(found) > MOST_SPANS else []
    return f"{array_id}_[{','.join([*found[:MOST_SPANS], *more])}]"


def spans(indices: Iterable[int]) -> list[str]:
    """The numbers in ascending order. Three and more consecutive numbers become a range: 0-3, 5, 6."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return [word for run in runs for word in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run))]


def _span(part: str, field: str, example: str) -> range:
    match = re.fullmatch(_ELEMENTS, part)
    if match is None:
        raise Refused(f"{field}: {part!r:.60} is not an index or range; write {example}", field=field)
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first or step < 1:
        raise Refused(f"{field}: {part!r} is empty; a range goes up in steps of 1 or more", field=field)
    size = (last - first) // step + 1
    if size > MAX_ARRAY_SIZE:
        raise _too_many(size, field)
    return range(first, last + 1, step)


def _too_many(size: int, field: str) -> Refused:
    return Refused(f"{field}: {size:,} elements are too many; an array has at most {MAX_ARRAY_SIZE:,}", field=field)
