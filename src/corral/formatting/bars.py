"""Bars and spark lines of characters."""

import sys
from collections.abc import Sequence
from typing import TextIO

_EIGHTHS = " ▏▎▍▌▋▊▉"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_PLAIN_HEIGHTS = "_.-=+*%#"


def bar(part: float | None, columns: int, stream: TextIO | None = None) -> str:
    """A bar of so many columns of which `part` (0 to 1) is full. Question marks for None, which is not known.

    `stream` is where it goes, None for standard output; if that cannot write blocks, it is #### and dots.
    """
    if part is None:
        return "?" * columns
    part = min(1.0, max(0.0, part))
    if not _can_write(_EIGHTHS, stream or sys.__stdout__):
        return ("#" * round(part * columns)).ljust(columns, ".")
    full, rest = divmod(round(part * columns * 8), 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(columns, "░")


def spark_line(parts: Sequence[float | None]) -> str:
    """A column for each part (0 to 1), as high as it is, blank for None, which is not known."""
    heights = _HEIGHTS if _can_write(_HEIGHTS, sys.__stdout__) else _PLAIN_HEIGHTS
    highest = len(heights) - 1
    return "".join(" " if part is None else heights[round(min(1.0, max(0.0, part)) * highest)] for part in parts)


def _can_write(text: str, stream: TextIO | None) -> bool:
    """Whether the stream can write the text.

    Programs that draw whole screens may replace `sys.stdout` by an object without an encoding.
    """
    try:
        text.encode((stream and stream.encoding) or "ascii")
    except UnicodeEncodeError:
        return False
    return True
