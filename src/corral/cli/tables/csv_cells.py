"""Cells of CSV that open safely in a spreadsheet."""

from datetime import datetime

from corral.core.model.printable import printable

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a spreadsheet takes for a formula; in East Asia the wide forms, too. Anybody names projects."""


def plain_cell(name: str) -> str:
    """The name so that no spreadsheet calculates it and no terminal obeys it."""
    return printable(f"'{name}" if name.lstrip(" ").startswith(_FORMULA) else name)


def moment(at: float) -> str:
    """A time with its offset from UTC."""
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")
