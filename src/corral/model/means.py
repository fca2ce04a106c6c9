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
    """What stands behind an allocation's memory and compute. Compute is never GUARDED."""

    memory: Level
    compute: Level
