"""Sums over groups of devices and jobs for a period. The sums of several groups can be added."""

from enum import StrEnum
from typing import NamedTuple

POOL = "pool"
"""The kind of the group that has everything; its name is empty."""


class KpiBy(StrEnum):
    """The attributes by which key figures can be grouped."""

    USER = "user"
    PROJECT = "project"
    QUEUE = "queue"
    NODE = "node"
    MEANS = "means"


class GroupUse(NamedTuple):
    """Readings of the devices of a group. Each has the seconds it covers (`*_s`), and reading times seconds.

    For users, projects and queues, the readings are of the devices that their jobs held. A share of a device counts as
    that part of it.

    Attributes:
        utilization_s, utilization_pct_s: percent of the device, or of the share.
        memory_s, memory_pct_s: used memory in percent of the device's memory, or of the share's.
        temperature_s, temperature_c_s: degrees Celsius.
        power_s, power_w_s: watts of a device.
        granted_s, used_s: device time of jobs whose utilization was read, and the part of it with 5 % or more.
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
    """Sums over the jobs of a group that ended within a period, without cancelled ones.

    Attributes:
        ended, failed: the number of jobs, and how many of them failed, were lost or reached their time limit.
        finished, finished_s: how many succeeded, and the seconds from their submission to their end.
        started, waited_s: how many had started, and the seconds that they waited in their queue before the last start.
            Time on hold, for another job, for their begin time, or between attempts is not counted.
        placed, placed_s: for how many the time of allocation is known, and the seconds from then to their start.
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
    """Return the field-by-field sum of both uses."""
    return GroupUse._make(a + b for a, b in zip(one, other, strict=True))


def added_jobs(one: EndedJobSums, other: EndedJobSums) -> EndedJobSums:
    """Return the field-by-field total of both sums."""
    return EndedJobSums._make(a + b for a, b in zip(one, other, strict=True))
