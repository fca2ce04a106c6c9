"""GPUs for scripts and notebooks: look at them, record them, estimate a task's need, and lease some.

>>> from corral import gpu
>>> snapshot = gpu.get_gpu_monitor().query_gpus()                     # doctest: +SKIP
>>> with gpu.lease(gpus=1) as held:                                   # doctest: +SKIP
...     held.apply()

It works with and without a Corral server on this host; GPUs that a server has allocated are not available here. Only
`lease` takes GPUs: every other function looks, and a GPU that it found free may be taken by the next caller.
Start reading at `monitor` and `leasing`.
"""

from corral.gpu.availability import check_gpu_availability, select_gpus_for_task, wait_for_gpu_availability
from corral.gpu.leasing import Lease, LeaseTimedOut, lease
from corral.gpu.monitor import GPUMonitor, GPUSnapshot, get_gpu_monitor
from corral.gpu.reading import GPUInfo
from corral.gpu.requirements import estimate_gpu_requirements

__all__ = [
    "GPUInfo",
    "GPUMonitor",
    "GPUSnapshot",
    "Lease",
    "LeaseTimedOut",
    "check_gpu_availability",
    "estimate_gpu_requirements",
    "get_gpu_monitor",
    "lease",
    "select_gpus_for_task",
    "wait_for_gpu_availability",
]
