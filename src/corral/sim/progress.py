"""How far a simulation is: what runs one tells whoever shows it."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Told often how many jobs are done with, of how many."""


def untold(done: int, total: int) -> None:
    """For a simulation that nobody watches."""
