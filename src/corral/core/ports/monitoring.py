"""The history as control needs it: the figures of one run of a job."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from corral.core.model.answers.gpu_monitoring import GpuMonitoring
from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Allocation


class MonitoredDevice(NamedTuple):
    """A device of a job: its label in the figures, its model, and its memory; None if unknown."""

    label: str
    name: str | None
    memory_mib: int | None


JobMonitoring = Callable[[Job, Allocation, Sequence[MonitoredDevice]], GpuMonitoring | None]
"""Returns the figures of a job's allocation on these devices, each once; None if nothing was measured."""
