"""Cells of CSV that open safely in a spreadsheet."""

from datetime import datetime

from corral.core.model.printable import printable

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The characters with which a formula begins, including East Asia's wide forms. Any user can choose such a name."""


def plain_cell(name: str) -> str:
    """The name in a form that no spreadsheet calculates and no terminal interprets."""
    return printable(f"'{name}" if name.lstrip(" ").startswith(_FORMULA) else name)


def moment(at: float) -> str:
    """A time with its offset from UTC."""
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")
