"""The readings of a device that tell of its health."""

from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum

from corral.core.model.devices.device import DeviceSample, throttle_reasons
from corral.core.model.devices.vitals import Vitals
from corral.features.health.answers import CounterRow


def counters_of(sample: DeviceSample) -> tuple[CounterRow, ...]:
    """Return the readings of a sample that were read."""
    throttled = None if sample.throttle is None else ", ".join(throttle_reasons(sample.throttle)) or "no"
    found = {
        "unreadable": sample.fault,
        "uncorrectable_memory_errors": sample.ecc_errors,
        "last_xid": sample.xid,
        "throttled": throttled,
        "temperature_c": sample.temperature_c,
        "power_mw": sample.power_mw,
        "sm_clock_mhz": sample.sm_clock_mhz,
        "mem_clock_mhz": sample.mem_clock_mhz,
        "utilization_pct": sample.utilization_pct,
        "memory_used_mib": sample.memory_used_mib,
        "memory_total_mib": sample.memory_total_mib,
    }
    read = [CounterRow(name, str(value)) for name, value in found.items() if value is not None]
    return (*read, *(() if sample.vitals is None else _of_vitals(sample.vitals)))


def _of_vitals(vitals: Vitals) -> Iterator[CounterRow]:
    for field in fields(vitals):
        value = getattr(vitals, field.name)
        if value is not None and field.name != "read_at":
            known = value.value if isinstance(value, StrEnum) else value
            yield CounterRow(field.name, {True: "yes", False: "no"}[known] if isinstance(known, bool) else str(known))
