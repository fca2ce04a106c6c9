"""The means of sharing a device, and the levels at which a job's grant is enforced."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Means(StrEnum):
    """How jobs share a device; the site's configuration chooses it per device."""

    EXCLUSIVE = "exclusive"
    MPS = "mps"
    MIG = "mig"
    TIMESLICE = "timeslice"
    HOOK = "hook"


class Level(StrEnum):
    """The enforcement of a job's grant: by hardware or driver, by Corral's memory guard, by a library in the job's own
    processes, or none.
    """

    ENFORCED = "enforced"
    GUARDED = "guarded"
    HOOK = "hook"
    ADVISORY = "advisory"


@dataclass(frozen=True, slots=True)
class Enforcement:
    """How strictly an allocation is held to its memory and compute on devices, and to its CPUs and memory of the host.

    A level is None if the allocation has none of that resource, or asked for no amount of it. Only device memory is
    ever GUARDED. `reason` says why memory and compute are not enforced although their means could; None if they are, or
    if the means cannot.
    """

    memory: Level | None = None
    compute: Level | None = None
    cpus: Level | None = None
    host_memory: Level | None = None
    reason: str | None = None


class ClientLimits(NamedTuple):
    """The limits that a device's MPS daemon sets to its clients, whatever their variables say.

    Attributes:
        slots: the equal parts of the device, to one of which each client is held; None if parts differ.
        loose: why a client can exceed its part all the same; None if it cannot.
    """

    slots: int | None = None
    loose: str | None = None


NO_LIMITS = ClientLimits()


@dataclass(frozen=True, slots=True)
class HostMeans:
    """The levels at which a host limits Corral's jobs to their CPUs and to their host memory.

    `unfenced` says why jobs on it can open the devices of others; None if a fence keeps them from it.
    """

    cpus: Level = Level.ADVISORY
    memory: Level = Level.ADVISORY
    unfenced: str | None = "its node does not say that jobs are fenced"
