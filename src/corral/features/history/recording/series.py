"""The series that are kept of a device, and how a sample gives them. Pure."""

from dataclasses import dataclass

from corral.core.model.devices.device import DeviceSample, throttle_reasons

SERIES = (
    "utilization_pct",
    "memory_used_mib",
    "memory_bandwidth_pct",
    "temperature_c",
    "power_w",
    "sm_clock_mhz",
    "mem_clock_mhz",
    "ecc_errors",
    "xid",
    "throttle",
)
"""The series that are kept. A series' number in the database is its place here: add new ones at the end, remove none.

`throttle` is 1 while the device is throttled and 0 otherwise, so that its mean is the throttled fraction of the time.
"""


LEAST_USED_PCT = 5
"""A device with less utilization is idle."""


def readings_of(sample: DeviceSample) -> tuple[float | None, ...]:
    """Return the sample's reading of each series; None for values that could not be read."""
    return (
        sample.utilization_pct,
        sample.memory_used_mib,
        sample.memory_bandwidth_pct,
        sample.temperature_c,
        None if sample.power_mw is None else sample.power_mw / 1000,
        sample.sm_clock_mhz,
        sample.mem_clock_mhz,
        sample.ecc_errors,
        sample.xid,
        None if sample.throttle is None else int(bool(throttle_reasons(sample.throttle))),
    )


@dataclass(frozen=True, slots=True)
class DeviceReadings:
    """The readings in one sample of a device: each series' value, or None if it could not be read.

    `covered_s` is the time before `at` that it covers.
    """

    at: float
    covered_s: float
    values: tuple[float | None, ...]


def covered_s(at: float, before: float | None, interval_s: float) -> float:
    """Return the time in seconds that a reading covers: since the one before, at most the sampling interval.

    After a gap, or after the clock was set back, it covers one interval.
    """
    since_s = interval_s if before is None or at <= before else at - before
    return min(since_s, interval_s)
