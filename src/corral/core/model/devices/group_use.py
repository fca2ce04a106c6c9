"""What groups of devices and jobs came to over a stretch of time, as sums that can be added up."""

from enum import StrEnum
from typing import NamedTuple

POOL = "pool"
"""The kind of the group of everything; its name is empty."""


class KpiBy(StrEnum):
    """What key figures are told by."""

    USER = "user"
    PROJECT = "project"
    QUEUE = "queue"
    NODE = "node"
    MEANS = "means"


class GroupUse(NamedTuple):
    """Readings of the devices of a group: of each the seconds that it stands for (`*_s`), and the reading times these.

    Of users, projects and queues they are of what their jobs held, a share of a device counting as that part of it.

    Attributes:
        utilization_s, utilization_pct_s: percent of the device, or of the share.
        memory_s, memory_pct_s: memory used in percent of the device's, or of that of the share.
        temperature_s, temperature_c_s: degrees Celsius.
        power_s, power_w_s: watts of a device.
        granted_s, used_s: device time of jobs whose utilization was read, and that in which it was 5 % or more.
        failures: failures of devices that were seen.
    """

    utilization_s: float = 0.0
    utilization_pct_s: float = 0.0
    memory_s: float = 0.0
    memory_pct_s: float = 0.0
    temperature_s: float = 0.0
    temperature_c_s: float = 0.0
    power_s: float = 0.0
    power_w_s: float = 0.0
    granted_s: float = 0.0
    used_s: float = 0.0
    failures: float = 0.0


class EndedJobSums(NamedTuple):
    """Jobs of a group that ended within a stretch of time, cancelled ones not counted.

    Attributes:
        ended, failed: how many, and how many of them failed, were lost or reached their time limit.
        finished, finished_s: how many succeeded, and the seconds from their submission to their end.
        started, waited_s: how many had started, and the seconds that they waited in their queue before the last start:
            without those on hold, for another job, for their begin time or between attempts.
        placed, placed_s: of how many it is known when they were given their devices, and the seconds from then to
            their start.
    """

    ended: int = 0
    failed: int = 0
    finished: int = 0
    finished_s: float = 0.0
    started: int = 0
    waited_s: float = 0.0
    placed: int = 0
    placed_s: float = 0.0


def added_use(one: GroupUse, other: GroupUse) -> GroupUse:
    """Both together."""
    return GroupUse._make(a + b for a, b in zip(one, other, strict=True))


def added_jobs(one: EndedJobSums, other: EndedJobSums) -> EndedJobSums:
    """Both together."""
    return EndedJobSums._make(a + b for a, b in zip(one, other, strict=True))
