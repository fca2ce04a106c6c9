"""The size of a terminal."""

from dataclasses import dataclass
from typing import Annotated

from corral.core.model.field import Field

MOST_CELLS = 10_000
"""The most rows and columns: no screen has more, and the kernel stores each in 16 bits."""


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """How many rows and columns a terminal has."""

    rows: Annotated[int, Field(least=1, most=MOST_CELLS)] = 24
    columns: Annotated[int, Field(least=1, most=MOST_CELLS)] = 80
