"""What a simulation looked like over time."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from corral.model.allocation import Allocation


class Run(NamedTuple):
    """One attempt of a job: what it held, from when until when (Unix seconds)."""

    allocation: Allocation
    start: float
    end: float


@dataclass(slots=True)
class History:
    """GPUs in use and jobs waiting at each moment at which either changed, every run, and the waits by user (s)."""

    times: list[float] = field(default_factory=list)
    gpus: list[float] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    waits: dict[str, list[float]] = field(default_factory=dict)

    def note(self, at: float, holdings: Iterable[float], waiting: int) -> None:
        """The state from `at` (Unix seconds) on; the last word for a moment counts."""
        gpus = sum(holdings)
        if self.times and self.times[-1] == at:
            self.gpus[-1], self.waiting[-1] = gpus, waiting
        elif not self.times or (self.gpus[-1], self.waiting[-1]) != (gpus, waiting):
            self.times.append(at)
            self.gpus.append(gpus)
            self.waiting.append(waiting)
