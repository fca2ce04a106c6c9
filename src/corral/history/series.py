"""The series that are kept of a device, and how a sample gives them. Pure."""

from dataclasses import dataclass

from corral.model.device import DeviceSample, throttle_reasons

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
"""What is kept. A series' number in the database is its place here: new ones come at the end, and none is taken out.

`throttle` is 1 while something throttles the device and 0 otherwise, so that its mean is the part of the time.
"""


LEAST_USED_PCT = 5
"""A device whose utilization is less is idle."""


def readings_of(sample: DeviceSample) -> tuple[float | None, ...]:
    """The sample's reading of each series; None is what could not be read."""
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
    """What one sample of a device told: each series' value, None where it could not be read.

    `covered_s` is the time before `at` that it stands for.
    """

    at: float
    covered_s: float
    values: tuple[float | None, ...]


def covered_s(at: float, before: float | None, interval_s: float) -> float:
    """The time that a reading stands for: since the one before, and never more than the interval of sampling.

    After a gap, and after a clock that was set back, it stands for one interval.
    """
    since_s = interval_s if before is None or at <= before else at - before
    return min(since_s, interval_s)
