"""The measurements of a job's GPUs over its run, in the form that autotuners read. Their `mb` are MiB."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NOT_TOLD = {"left_out": True}
"""Marks a field that an answer leaves out, instead of null, if nothing was measured (`corral.wire`)."""


@dataclass(frozen=True, slots=True)
class MeasuredRange:
    """The least, the most and the mean of the readings."""

    min: float
    max: float
    mean: float


@dataclass(frozen=True, slots=True)
class MeasuredUtilization:
    """The least, the most and the mean of `samples` readings, in percent."""

    min: float
    max: float
    mean: float
    samples: int


@dataclass(frozen=True, slots=True)
class GpuStats:
    """The measurements of one GPU of a job while the job had it; for a shared GPU, the job's own part.

    Values that were not measured are left out.
    """

    name: str | None = field(default=None, metadata=NOT_TOLD)
    utilization: MeasuredUtilization | None = field(default=None, metadata=NOT_TOLD)
    memory_used_mb: MeasuredRange | None = field(default=None, metadata=NOT_TOLD)
    memory_usage_percent: MeasuredRange | None = field(default=None, metadata=NOT_TOLD)
    temperature_c: MeasuredRange | None = field(default=None, metadata=NOT_TOLD)
    power_draw_w: MeasuredRange | None = field(default=None, metadata=NOT_TOLD)


@dataclass(frozen=True, slots=True)
class GpuMonitoring:
    """The measurements of a job's GPUs.

    Attributes:
        monitoring_duration_seconds: the time that the samples cover.
        sample_count: how often the GPUs were sampled.
        gpu_stats: by the index of the GPU; for a job on several nodes by "NODE:INDEX".
    """

    monitoring_duration_seconds: float
    sample_count: int
    gpu_stats: Mapping[str, GpuStats]
