"""Answers about the health of devices."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HealthRow:
    """The health of one device.

    Attributes:
        index, name, node: null if no node has the device any more.
        health: healthy, suspect, quarantined or probation.
        reason: why, for a person.
        since: since when; null for a device that was always healthy.
        until: the end of the watch over it, null if none runs.
        tested: on probation, it has passed its test.
        relapses: how often it fell sick since its faults were forgotten last.
        trusted: the kinds of signs that an administrator accepted, until they are gone.
        jobs: the jobs on it.
    """

    uuid: str
    index: int | None = None
    name: str = ""
    node: str | None = None
    health: str = "healthy"
    reason: str | None = None
    since: float | None = None
    until: float | None = None
    tested: bool = False
    relapses: int = 0
    trusted: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HealthList:
    """The devices that are sick or were sick of late, and the number of all devices."""

    devices: tuple[HealthRow, ...]
    total: int = 0


@dataclass(frozen=True, slots=True)
class HealthChange:
    """A change of the health of a device: when, who caused it, and the signs behind it, each in a sentence."""

    changed_at: float
    health: str
    reason: str = ""
    evidence: tuple[str, ...] = ()
    by: str = ""


@dataclass(frozen=True, slots=True)
class RunOnDevice:
    """A job that had a device or a part of it, in thousandths. `ended_at` is null while it runs."""

    job: str
    user: str = ""
    share_milli: int = 1000
    began_at: float = 0.0
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class CounterRow:
    """A reading of a device that tells of its health, with its unit in its name."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of a device's health: what a vendor asks for.

    Attributes:
        driver: the version of the driver of its node.
        errors: the driver's errors of the last minutes, each in a sentence.
        counters: its last readings.
        changes: the last changes of its health, oldest first.
        runs: the jobs that had it in the last 7 days, oldest first.
        driver_log: the driver's lines about it in the log of its host's kernel; only administrators get them.
        driver_log_missing: why there are no such lines, null if there are.
    """

    device: HealthRow
    taken_at: float
    pci_bus_id: str | None = None
    driver: str | None = None
    errors: tuple[str, ...] = ()
    counters: tuple[CounterRow, ...] = ()
    changes: tuple[HealthChange, ...] = ()
    runs: tuple[RunOnDevice, ...] = ()
    driver_log: tuple[str, ...] = ()
    driver_log_missing: str | None = None
