"""Counts values by size, in the form of Prometheus. One thread counts; any thread may read at the same time."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Bounds for work of the server itself."""

WAIT_SECONDS = (0.1, 1.0, 5.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 10800.0, 21600.0, 43200.0, 86400.0, 604800.0)
"""Bounds for waits of people, up to a week."""

SIZES = tuple(float(4**power) for power in range(7))
"""Bounds for numbers of things done at once, 1 to 4096."""


class Histogram:
    """The number of values up to each bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value. It belongs to the first bound that is not below it."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self._counts)

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Pairs (bound, number of values up to it), from the lowest bound to infinity, which counts all values."""
        return zip((*self._bounds, float("inf")), accumulate(list(self._counts)), strict=True)
