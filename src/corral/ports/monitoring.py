"""What control needs of the history: the figures of one run of a job."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from corral.model.allocation import Allocation
from corral.model.answers.gpu_monitoring import GpuMonitoring
from corral.model.job import Job


class MonitoredDevice(NamedTuple):
    """A device of a job: what it is called in the figures, its model, and its memory; None is not known."""

    label: str
    name: str | None
    memory_mib: int | None


JobMonitoring = Callable[[Job, Allocation, Sequence[MonitoredDevice]], GpuMonitoring | None]
"""What was measured while a job had an allocation, whose devices are these, each once; None where that is nothing."""
