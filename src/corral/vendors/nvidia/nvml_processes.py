"""Reads the processes on a device from NVML: their memory, and their utilisation of the device."""

from collections.abc import Mapping
from dataclasses import replace

import pynvml

from corral.core.model.devices.device import DeviceProcess
from corral.vendors.nvidia.nvml_calls import ask
from corral.vendors.nvidia.nvml_devices_and_slices import Handle

UTILIZATION_WINDOW_S = 2.0
"""The driver measures a process one to six times a second. Older samples belong to another moment."""

_MIB = 1024 * 1024
_NOBODY = (pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND)
"""The codes of NVML if no process has used the device since the given time."""


def read_processes(handle: Handle, wall_now: float) -> tuple[DeviceProcess, ...] | None:
    """The compute processes by pid; None if the driver does not list them. `wall_now` is Unix seconds.

    Memory or utilisation is None if the driver does not report it for a process.
    """
    running = ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)
    if running is None:
        running = ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle)
    if running is None:
        return None
    memory_mib: dict[int, int | None] = {}
    for process in running:
        used = process.usedGpuMemory
        mib = None if used is None else used // _MIB
        before = memory_mib.get(process.pid)
        memory_mib[process.pid] = mib if before is None or mib is None else before + mib
    processes = tuple(DeviceProcess(pid, mib) for pid, mib in sorted(memory_mib.items()))
    used_pct = _read_utilization(handle, wall_now) if processes else None
    if used_pct is None:
        return processes
    return tuple(replace(process, utilization_pct=used_pct.get(process.pid, 0)) for process in processes)


def _read_utilization(handle: Handle, wall_now: float) -> Mapping[int, int | None] | None:
    """The recent utilisation of each process that used the device, in percent; None if the driver does not report it.

    A process that did not use the device is not in the driver's answer.
    """
    since_us = max(0, int((wall_now - UTILIZATION_WINDOW_S) * 1e6))
    found = ask(_process_utilization, handle, since_us)
    if found is None:
        return None
    newest = {sample.pid: sample.smUtil for sample in sorted(found, key=_time_of)}
    return {pid: used if used <= 100 else None for pid, used in newest.items()}


def _process_utilization(handle: Handle, since_us: int) -> list["pynvml.c_nvmlProcessUtilizationSample_t"]:
    try:
        return list(pynvml.nvmlDeviceGetProcessUtilization(handle, since_us))
    except pynvml.NVMLError as error:
        if error.value in _NOBODY:
            return []
        raise


def _time_of(sample: "pynvml.c_nvmlProcessUtilizationSample_t") -> int:
    return int(sample.timeStamp)
