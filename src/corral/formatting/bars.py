"""Bars and spark lines of characters."""

import sys
from typing import TextIO

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(part: float | None, columns: int, stream: TextIO | None = None) -> str:
    """A bar of so many columns of which `part` (0 to 1) is full. Question marks for None, which is not known.

    `stream` is where it goes, None for standard output: if that cannot write blocks, it is #### and dots.
    """
    if part is None:
        return "?" * columns
    part = min(1.0, max(0.0, part))
    if not _can_write(_EIGHTHS, stream or sys.stdout):
        return ("#" * round(part * columns)).ljust(columns, ".")
    full, rest = divmod(round(part * columns * 8), 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(columns, "░")


def _can_write(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
