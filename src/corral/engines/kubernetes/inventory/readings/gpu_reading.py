"""Readings of the GPUs of a node, from any source."""

import math
from dataclasses import dataclass

from corral.engines.kubernetes.inventory.occupants import PodName

MOST_GPUS = 1024
"""The most GPUs of a node. A higher index is considered invalid."""

_BLANK = (1 << 31) - 16
"""The least of DCGM's blank values (no value, not found, not supported, not permitted)."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """Readings of one GPU. None stands for values that its source does not give.

    Attributes:
        index: its index by the driver, on its node.
        utilization_pct: 0 to 100.
        memory_total_mib: all memory, the driver's own part included.
        pod: the pod that has it; None if no pod or several have it, or if its source does not say.
    """

    index: int
    uuid: str | None = None
    utilization_pct: float | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    temperature_c: float | None = None
    pod: PodName | None = None
    power_w: float | None = None
    sm_clock_mhz: float | None = None

    @property
    def memory_free_mib(self) -> int | None:
        """The memory that is left; None if either amount is unknown."""
        if self.memory_used_mib is None or self.memory_total_mib is None:
            return None
        return max(0, self.memory_total_mib - self.memory_used_mib)

    @property
    def memory_used_pct(self) -> float | None:
        """The used part of the memory in percent; None if either amount is unknown."""
        if self.memory_used_mib is None or not self.memory_total_mib:
            return None
        return 100.0 * self.memory_used_mib / self.memory_total_mib


@dataclass(frozen=True, slots=True)
class NodeReadings:
    """The readings of one node's GPUs, and when they were read (Unix seconds)."""

    taken_at: float = 0.0
    gpus: tuple[GpuReading, ...] = ()


NO_READINGS = NodeReadings()


def measured(text: str) -> float | None:
    """Return the value in a source's text, or None if it is no amount, as "[N/A]" and blank values."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < _BLANK else None
