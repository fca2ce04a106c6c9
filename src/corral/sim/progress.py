"""The progress of a simulation, reported by the simulation to the code that shows it."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called often with the number of finished jobs, and of all jobs."""


def untold(done: int, total: int) -> None:
    """For a simulation whose progress is not shown."""
