"""How a device is shared, and how much of what was granted is more than a promise."""

from dataclasses import dataclass
from enum import StrEnum


class Means(StrEnum):
    """How jobs meet on a device; chosen per device by configuration."""

    EXCLUSIVE = "exclusive"
    MPS = "mps"
    MIG = "mig"
    TIMESLICE = "timeslice"


class Level(StrEnum):
    """Who holds a job to its grant: hardware or driver, Corral's memory guard, or nobody."""

    ENFORCED = "enforced"
    GUARDED = "guarded"
    ADVISORY = "advisory"


@dataclass(frozen=True, slots=True)
class Enforcement:
    """What stands behind an allocation's memory and compute on devices, and its CPUs and memory of the host.

    None where it has nothing of the kind, or asked for no amount of it. Only memory of devices is ever GUARDED.
    """

    memory: Level | None = None
    compute: Level | None = None
    cpus: Level | None = None
    host_memory: Level | None = None


@dataclass(frozen=True, slots=True)
class HostMeans:
    """Who holds the jobs that Corral runs to their CPUs and their memory of the host."""

    cpus: Level = Level.ADVISORY
    memory: Level = Level.ADVISORY
