"""The input of a job's program: whether it takes more, and the size of its terminal."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from corral.core.model.field import Field

MOST_CELLS = 10_000
"""The most rows and columns: no screen has more, and the kernel stores each in 16 bits."""


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """How many rows and columns a terminal has."""

    rows: Annotated[int, Field(least=1, most=MOST_CELLS)] = 24
    columns: Annotated[int, Field(least=1, most=MOST_CELLS)] = 80


class InputState(StrEnum):
    """WAITING: the job has not started. OPEN: it takes more input. CLOSED: it has all its input, or has ended."""

    WAITING = "waiting"
    OPEN = "open"
    CLOSED = "closed"
