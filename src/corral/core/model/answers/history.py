"""Answers about the measured history of devices, jobs, nodes, users and projects."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """What the readings of one step were: `t` is its start (Unix seconds), `coverage` the part of it that had any.

    `p95` is at most 1 % of itself away from the reading of that rank.
    """

    t: int
    min: float
    mean: float
    max: float
    p95: float
    coverage: float


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """A device's readings from `from` to `to` (Unix seconds), by series, in steps of `step_s`.

    A step without a reading is left out.
    """

    uuid: str
    from_: int
    to: int
    step_s: int
    series: Mapping[str, tuple[HistoryPoint, ...]]


@dataclass(frozen=True, slots=True)
class JobHistory:
    """What the devices of a job were like while it had them, as `DeviceHistory` tells it of a device.

    Of a device that it shared they are what its own processes had. Memory, power and errors of several are sums.
    """

    id: str
    from_: int
    to: int
    step_s: int
    series: Mapping[str, tuple[HistoryPoint, ...]]


@dataclass(frozen=True, slots=True)
class JobGpuHistory:
    """What one GPU of a job was like while its last attempt had it; `memory_mib` is all of its memory.

    `label` is what the GPU is called in `gpu_monitoring`. `series` is empty where there are too many GPUs.
    """

    label: str
    name: str | None
    memory_mib: int | None
    series: Mapping[str, tuple[HistoryPoint, ...]]


@dataclass(frozen=True, slots=True)
class JobGpusHistory:
    """What each GPU of a job's last attempt was like. Of more than 16, `series` has their spread instead.

    In `series`, a point has the least, the mean and the most that any of the GPUs read in its step.
    """

    id: str
    from_: int
    to: int
    step_s: int
    gpus: tuple[JobGpuHistory, ...]
    series: Mapping[str, tuple[HistoryPoint, ...]]


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """What the devices of a node were like, or those that a user or project had, as `DeviceHistory` tells it of one.

    Memory, power and errors are sums; of the rest the readings of all devices are one distribution.
    """

    name: str
    from_: int
    to: int
    step_s: int
    series: Mapping[str, tuple[HistoryPoint, ...]]
