"""Finds jobs that did not use their grants: idle GPUs, and memory that stayed free. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from corral.core.model.runs.run_history import HeldAllocation, MeteredHour
from corral.features.accounting.held_devices import HeldDevice

LEAST_MS = 600_000
"""Shorter attempts say little about a job's needs."""

LEAST_METERED = 0.9
"""The fraction of an attempt that must be measured before it counts as not using its grant."""

LEAST_USED = 0.05
"""A device that was used for less of the time was idle."""

OVERSIZED_BELOW = 0.3
"""A job that never used this fraction of its granted memory was granted too much."""


@dataclass(frozen=True, slots=True)
class UnusedGrant:
    """One attempt of a job that did not use its whole grant.

    Attributes:
        devices, devices_used: the number of its devices, and of those that it used.
        device_ms, idle_ms: the time that it had them, and their idle time, summed over devices.
        memory_most_mib: the most memory that it used of a device; None if unknown for any of them.
        memory_granted_mib: the least memory that it was granted of a device; None if unknown.
        oversized: whether it never used three tenths of that memory.
    """

    allocation: HeldAllocation
    devices: int
    devices_used: int
    device_ms: int
    idle_ms: int
    memory_most_mib: int | None
    memory_granted_mib: int | None
    oversized: bool


@dataclass(slots=True)
class _Device:
    held: HeldDevice
    granted_mib: int | None
    used_ms: int = 0
    idle_ms: int = 0
    memory_most_mib: int | None = None


@dataclass(slots=True)
class _Attempt:
    allocation: HeldAllocation
    devices: dict[str, _Device] = field(default_factory=dict)


def unused_grants(
    devices: Iterable[tuple[HeldDevice, int | None]], metered: Iterable[Sequence[MeteredHour]]
) -> list[UnusedGrant]:
    """Return the last such attempt of each job, those with the most idle time first.

    `devices` come with the memory in MiB that was granted of each, or None if unknown.
    """
    attempts: dict[str, _Attempt] = {}
    for held, granted_mib in devices:
        if held.end_ms - held.begin_ms >= LEAST_MS:
            attempt = attempts.setdefault(held.allocation.id, _Attempt(held.allocation))
            attempt.devices[held.uuid] = _Device(held, granted_mib)
    for batch in metered:
        for row in batch:
            found = attempts.get(row.allocation_id)
            device = None if found is None else found.devices.get(row.uuid)
            if device is not None:
                device.used_ms += row.used_ms
                device.idle_ms += row.idle_ms
                if row.memory_most_mib is not None:
                    device.memory_most_mib = max(row.memory_most_mib, device.memory_most_mib or 0)
    last = {one.allocation.job_id: one for one in attempts.values()}
    unused = [_judged(one.allocation, list(one.devices.values())) for one in last.values()]
    found_unused = [one for one in unused if one is not None]
    return sorted(found_unused, key=lambda one: (-one.idle_ms, -one.device_ms, one.allocation.id))


def _judged(allocation: HeldAllocation, devices: Sequence[_Device]) -> UnusedGrant | None:
    """Return the unused grant; None if it was used, or if too little was measured."""
    device_ms = sum(one.held.end_ms - one.held.begin_ms for one in devices)
    if sum(one.used_ms + one.idle_ms for one in devices) < LEAST_METERED * device_ms:
        return None
    used = sum(one.used_ms >= LEAST_USED * (one.used_ms + one.idle_ms) for one in devices)
    memory, granted = [one.memory_most_mib for one in devices], [one.granted_mib for one in devices]
    oversized = all(
        most is not None and mib is not None and most < OVERSIZED_BELOW * mib
        for most, mib in zip(memory, granted, strict=True)
    )
    if used == len(devices) and not oversized:
        return None
    return UnusedGrant(
        allocation,
        len(devices),
        used,
        device_ms,
        sum(one.idle_ms for one in devices),
        None if None in memory else max(mib or 0 for mib in memory),
        None if None in granted else min(mib or 0 for mib in granted),
        oversized,
    )
