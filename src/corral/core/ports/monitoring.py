"""Measurements of jobs, as control needs them: the figures of one run, the GPU-hours of all, the use of jobs alike."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from corral.core.model.answers.gpu_monitoring import GpuMonitoring
from corral.core.model.answers.job_details import JobUse
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Allocation
from corral.core.model.runs.prediction import Prediction


class MonitoredDevice(NamedTuple):
    """A device of a job: its label in the figures, its model, and its memory; None if unknown."""

    label: str
    name: str | None
    memory_mib: int | None


JobMonitoring = Callable[[Job, Allocation, Sequence[MonitoredDevice]], GpuMonitoring | None]
"""Returns the figures of a job's allocation on these devices, each once; None if nothing was measured."""

UseOfJob = Callable[[str], JobUse | None]
"""Returns the GPU-hours of the job of this id; None if it never had a device."""


class UseOfAlike(NamedTuple):
    """The use of GPUs that is predicted for a job from jobs that were alike; None where too few were measured.

    `memory_mib` is of one GPU, `used_pct` the part of the time in which the GPUs computed.
    """

    memory_mib: Prediction | None = None
    used_pct: Prediction | None = None


PredictUse = Callable[[JobSpec], UseOfAlike]
"""Predicts the use of a job's GPUs. It asks no disk."""
