"""The means of sharing a device, and the levels at which a job's grant is enforced."""

from dataclasses import dataclass
from enum import StrEnum


class Means(StrEnum):
    """How jobs share a device; the site's configuration chooses it per device."""

    EXCLUSIVE = "exclusive"
    MPS = "mps"
    MIG = "mig"
    TIMESLICE = "timeslice"


class Level(StrEnum):
    """The enforcement of a job's grant: by hardware or driver, by Corral's memory guard, or none."""

    ENFORCED = "enforced"
    GUARDED = "guarded"
    ADVISORY = "advisory"


@dataclass(frozen=True, slots=True)
class Enforcement:
    """How strictly an allocation is held to its memory and compute on devices, and to its CPUs and memory of the host.

    A field is None if the allocation has none of that resource, or asked for no amount of it. Only device memory is
    ever GUARDED.
    """

    memory: Level | None = None
    compute: Level | None = None
    cpus: Level | None = None
    host_memory: Level | None = None


@dataclass(frozen=True, slots=True)
class HostMeans:
    """The levels at which a host limits Corral's jobs to their CPUs and to their host memory."""

    cpus: Level = Level.ADVISORY
    memory: Level = Level.ADVISORY
