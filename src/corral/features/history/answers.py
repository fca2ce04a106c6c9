"""Answers about the measured history of devices, jobs, nodes, users and projects, and with key figures."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """The readings of one step: `t` is its start (Unix seconds), `coverage` the part of it that has readings.

    `p95` differs by at most 1 % from the reading of that rank.
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
    """The readings of a job's devices while it had them, in the form of `DeviceHistory`.

    For a shared device they are of the job's own processes. Memory, power and errors of several devices are sums.
    """

    id: str
    from_: int
    to: int
    step_s: int
    series: Mapping[str, tuple[HistoryPoint, ...]]


@dataclass(frozen=True, slots=True)
class JobGpuHistory:
    """The readings of one GPU of a job during its last attempt; `memory_mib` is all of the GPU's memory.

    `label` is the GPU's name in `gpu_monitoring`. `series` is empty if there are too many GPUs.
    """

    label: str
    name: str | None
    memory_mib: int | None
    series: Mapping[str, tuple[HistoryPoint, ...]]


@dataclass(frozen=True, slots=True)
class JobGpusHistory:
    """The readings of each GPU of a job's last attempt. With more than 16 GPUs, `series` has their spread instead.

    A point of `series` has the least, the mean and the most of all GPUs in its step.
    """

    id: str
    from_: int
    to: int
    step_s: int
    gpus: tuple[JobGpuHistory, ...]
    series: Mapping[str, tuple[HistoryPoint, ...]]


@dataclass(frozen=True, slots=True)
class SeriesWindow:
    """The readings of one series in a window: their count, sum, minimum and maximum, and the time that they cover."""

    count: int
    sum: float
    min: float
    max: float
    covered_s: float


@dataclass(frozen=True, slots=True)
class GpuWindow:
    """The readings of one GPU in a window, by series; a series without a reading is left out.

    `label` is the GPU's name in `gpu_monitoring`, and `memory_mib` is all of its memory.
    """

    label: str
    name: str | None
    memory_mib: int | None
    series: Mapping[str, SeriesWindow]


@dataclass(frozen=True, slots=True)
class GpuWindows:
    """The readings of GPUs from `from` to `to` (Unix seconds).

    These are the whole steps of the history within the asked window: seconds, and tens of seconds after an hour.
    """

    from_: float
    to: float
    gpus: tuple[GpuWindow, ...]


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The readings of the devices of a node, a user or a project, in the form of `DeviceHistory`.

    Memory, power and errors are sums; for the rest, the readings of all devices are one distribution.
    """

    name: str
    from_: int
    to: int
    step_s: int
    series: Mapping[str, tuple[HistoryPoint, ...]]


@dataclass(frozen=True, slots=True)
class Kpi:
    """One key figure: `value` is None where nothing was measured. `formula` is a sentence with its definition."""

    value: float | None
    unit: str
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KpiSet:
    """The key figures of a pool, or of one group of it."""

    gpu_utilization: Kpi
    memory_utilization: Kpi
    compute_efficiency: Kpi
    job_throughput: Kpi
    job_completion_time: Kpi
    queue_wait_time: Kpi
    resource_allocation_time: Kpi
    system_response_time: Kpi
    temperature: Kpi
    power_consumption: Kpi
    error_rates: Kpi
    hardware_failures: Kpi


@dataclass(frozen=True, slots=True, kw_only=True)
class KpiRow(KpiSet):
    """The key figures of one user, project, queue, node or means of sharing."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kpis(KpiSet):
    """The key figures of the whole pool from `from` to `to` (Unix seconds). With `by`, also a row for each group.

    The groups with the most GPU time come first. `left_out` is the number of further rows.
    """

    from_: int
    to: int
    by: str | None = None
    rows: tuple[KpiRow, ...] = ()
    left_out: int = 0
