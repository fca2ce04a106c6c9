"""Samples of a host whose clock differs from the server's."""

from dataclasses import replace

from corral.core.model.devices.device import DeviceProcess, DeviceSample


def moved(sample: DeviceSample, by_s: float) -> DeviceSample:
    """Return the sample with all its moments `by_s` seconds later."""
    processes = sample.processes
    if processes is not None:
        processes = tuple(_process_moved(process, by_s) for process in processes)
    errors = tuple(replace(error, at=error.at + by_s) for error in sample.errors)
    vitals = None if sample.vitals is None else replace(sample.vitals, read_at=sample.vitals.read_at + by_s)
    return replace(sample, taken_at=sample.taken_at + by_s, processes=processes, errors=errors, vitals=vitals)


def _process_moved(process: DeviceProcess, by_s: float) -> DeviceProcess:
    return process if process.started_at is None else replace(process, started_at=process.started_at + by_s)
