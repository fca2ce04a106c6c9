"""The course of a simulation over time, for plots."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from corral.core.model.devices.device import Node
from corral.core.model.placing.allocation import Allocation


class Run(NamedTuple):
    """One attempt of a job: its allocation, start and end (Unix seconds)."""

    allocation: Allocation
    start: float
    end: float


@dataclass(slots=True)
class History:
    """The use and the number of waiting jobs at each change; every run; waits by user in seconds.

    `in_use` counts GPUs, or CPUs for jobs without GPUs. `names` are display names of devices, by UUID.
    """

    times: list[float] = field(default_factory=list)
    in_use: list[float] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    waits: dict[str, list[float]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def name(self, nodes: Sequence[Node]) -> None:
        """Name the devices of these nodes by their index, with several nodes also by their node."""
        for node in nodes:
            for device in node.devices:
                self.names[device.uuid] = f"GPU {device.index}" if len(nodes) == 1 else f"{node.name}:{device.index}"

    def note(self, at: float, allocations: Iterable[Allocation], waiting: int) -> None:
        """Record the use and the number of waiting jobs from `at` (Unix seconds) on. The last call for a time
        counts.
        """
        in_use = sum(allocation.gpus or _cpus(allocation) for allocation in allocations)
        if self.times and self.times[-1] == at:
            self.in_use[-1], self.waiting[-1] = in_use, waiting
        elif not self.times or (self.in_use[-1], self.waiting[-1]) != (in_use, waiting):
            self.times.append(at)
            self.in_use.append(in_use)
            self.waiting.append(waiting)


def _cpus(allocation: Allocation) -> float:
    return sum(member.cpu_milli for member in allocation.placement.members) / 1000
