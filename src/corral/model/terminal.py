"""The size of a terminal."""

from dataclasses import dataclass

MOST_CELLS = 10_000
"""The most rows, and the most columns: no screen has more, and the kernel keeps each in 16 bits."""


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """How many rows and columns a terminal has."""

    rows: int = 24
    columns: int = 80
