"""What the cluster remembers of work that is over: who used how much, how long what ran."""

from enum import StrEnum
from typing import NamedTuple

from corral.core.model.devices.means import Enforcement
from corral.core.model.placing.allocation import Member

HOUR_S = 3600.0

HOURS_KEPT = 24 * 31
"""GPU-hours are remembered for so long, and counted by the hour in which they were given back."""

RUNS_KEPT = 5
"""So many run times are kept of each user's jobs of one name."""


class PastRun(NamedTuple):
    """One attempt that is over: who had how many GPUs from when until when (Unix seconds).

    `ran_s` is how long it ran if it succeeded, None otherwise. `job_id` says whose service it was.
    """

    user: str
    project: str
    queue: str
    name: str
    gpus: float
    created_at: float
    ended_at: float
    ran_s: float | None = None
    job_id: str | None = None

    @property
    def gpu_s(self) -> float:
        """GPU-seconds that were allocated to it."""
        return self.gpus * max(0.0, self.ended_at - self.created_at)


class UsageBy(StrEnum):
    """Whose use is counted together."""

    USER = "user"
    PROJECT = "project"
    QUEUE = "queue"


class ReportBy(StrEnum):
    """Which GPU time a report counts together; hour and weekday are the wall clock's."""

    USER = "user"
    PROJECT = "project"
    QUEUE = "queue"
    JOB = "job"
    MODEL = "model"
    NODE = "node"
    HOUR = "hour"
    WEEKDAY = "weekday"


class AllocatedTime(NamedTuple):
    """What the allocations of a user, project and queue came to within a period, those alike in the rest together.

    `gpu_s` are GPU-seconds, half a GPU counting half; of slices of `mig_profile` they are slice-seconds. `enforcement`
    is None where it was not recorded. `lost_gpu_s` of them were for nothing, as their jobs had to make room.
    """

    user: str
    project: str
    queue: str
    mig_profile: str | None
    enforcement: Enforcement | None
    gpu_s: float
    allocations: int
    lost_gpu_s: float = 0.0


class HeldAllocation(NamedTuple):
    """One allocation with devices: whose it was, and from when until when (Unix seconds; `ended_at` None is live).

    `wasted_from` is from when on it was for nothing, as its attempt failed, was lost or had to make room; None: nothing
    of it was. `job_name` is as its user chose it. `models` are those of its devices as they were chosen, in the order
    of the members' grants; fewer where that was not kept of all.
    """

    id: str
    job_id: str
    job_name: str
    user: str
    project: str
    queue: str
    created_at: float
    ended_at: float | None
    members: tuple[Member, ...]
    reserved: bool = False
    wasted_from: float | None = None
    models: tuple[str, ...] = ()


class MeteredHour(NamedTuple):
    """What was measured of one device of one allocation within an hour (hours since 1970).

    `used_ms` and `idle_ms` are device time, whatever the share. `energy_mj` is the allocation's part of the device's
    energy in millijoules, `memory_most_mib` the most memory that it was seen to use; None where nothing was read.
    """

    hour: int
    allocation_id: str
    uuid: str
    used_ms: int
    idle_ms: int
    energy_mj: int | None = None
    memory_most_mib: int | None = None


Spent = tuple[tuple[int, float], ...]
"""GPU-seconds by the hour (hours since 1970), oldest first."""


def spend(spent: Spent, at: float, gpu_s: float) -> Spent:
    """With `gpu_s` more, given back at `at`; what is older than HOURS_KEPT is dropped."""
    hour = int(at // HOUR_S)
    kept = tuple(one for one in spent if one[0] > hour - HOURS_KEPT)
    if kept and kept[-1][0] == hour:
        return (*kept[:-1], (hour, kept[-1][1] + gpu_s))
    return (*kept, (hour, gpu_s))


def spent_since(spent: Spent, at: float) -> float:
    """GPU-seconds given back since `at`, to the hour."""
    return sum(gpu_s for hour, gpu_s in spent if hour >= at // HOUR_S)
