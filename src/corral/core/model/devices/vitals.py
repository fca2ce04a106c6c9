"""The readings of a device that show whether it is well: its driver's errors, its counters of faults, its limits."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class DriverError:
    """An error of a device that its driver has reported.

    Attributes:
        code: its number.
        at: when it was seen, Unix seconds.
        pid: the process that the driver names, as the host counts; None if it names none.
        job_id: the job of that process; None if the process was of no job, or is not known.
    """

    code: int
    at: float
    pid: int | None = None
    job_id: str | None = None


class RecoveryAction(StrEnum):
    """The action by which a device recovers, as its driver reports it."""

    NONE = "none"
    DRAIN_P2P = "drain_p2p"
    RESET = "reset"
    DRAIN_AND_RESET = "drain_and_reset"
    REBOOT = "reboot"
    OTHER = "other"


class ReadFailure(StrEnum):
    """The extent of a failure to read a device: the device is lost, a call about it hangs, or its driver fails."""

    LOST = "lost"
    HUNG = "hung"
    DRIVER = "driver"


@dataclass(frozen=True, slots=True)
class Vitals:
    """Readings that change seldom, and are taken seldom. None is a value that the driver or the device does not have.

    Attributes:
        read_at: when they were read, Unix seconds.
        recovery: the action that the device needs.
        remap_pending: rows of memory are replaced at the next reset.
        remap_failed: a row of memory could not be replaced.
        remapped_rows: the rows of memory that were replaced after uncorrectable errors.
        below_slowdown_c: the degrees until the device slows itself; 0 or less: it does.
        below_shutdown_c: the degrees until the device shuts itself off.
        pcie_lanes, most_pcie_lanes: the width of the PCIe link, and its greatest width in this host.
        pcie_generation, best_pcie_generation: the generation of the PCIe link, and its best in this host.
        pcie_replays: packets that the PCIe link sent again, since the driver was loaded.
        link_replays: packets that the fast links to other devices sent again.
        link_recoveries: the times that such a link had to be trained again.
        links_down: fast links that were up when the driver's session began, and are down.
    """

    read_at: float
    recovery: RecoveryAction | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    remapped_rows: int | None = None
    below_slowdown_c: int | None = None
    below_shutdown_c: int | None = None
    pcie_lanes: int | None = None
    most_pcie_lanes: int | None = None
    pcie_generation: int | None = None
    best_pcie_generation: int | None = None
    pcie_replays: int | None = None
    link_replays: int | None = None
    link_recoveries: int | None = None
    links_down: int | None = None
