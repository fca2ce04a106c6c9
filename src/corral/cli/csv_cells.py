"""Cells of CSV that open safely in a spreadsheet."""

from datetime import datetime

from corral.model.printable import printable

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for a formula. Names of projects are anybody's to choose."""


def plain_cell(name: str) -> str:
    """The name so that no spreadsheet calculates it and no terminal obeys it."""
    return printable(f"'{name}" if name.startswith(_FORMULA) else name)


def moment(at: float) -> str:
    """A time with its offset from UTC."""
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")
