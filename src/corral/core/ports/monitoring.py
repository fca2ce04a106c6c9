"""Measurements of a job, as control needs them: the figures of one run, and the GPU-hours of all."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from corral.core.model.answers.gpu_monitoring import GpuMonitoring
from corral.core.model.answers.job_details import JobUse
from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Allocation


class MonitoredDevice(NamedTuple):
    """A device of a job: its label in the figures, its model, and its memory; None if unknown."""

    label: str
    name: str | None
    memory_mib: int | None


JobMonitoring = Callable[[Job, Allocation, Sequence[MonitoredDevice]], GpuMonitoring | None]
"""Returns the figures of a job's allocation on these devices, each once; None if nothing was measured."""

UseOfJob = Callable[[str], JobUse | None]
"""Returns the GPU-hours of the job of this id; None if it never had a device."""
