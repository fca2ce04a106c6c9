"""The history of past runs: how much each user used, and how long runs took."""

from bisect import bisect_right
from enum import StrEnum
from typing import NamedTuple

from corral.core.model.devices.means import Enforcement
from corral.core.model.placing.allocation import Member
from corral.core.model.runs.packing import PackedAttempt
from corral.core.model.runs.prediction import JobGroup

HOUR_S = 3600.0

HOURS_KEPT = 24 * 31
"""The number of hours for which GPU-hours are kept. They are counted in the hour in which the allocation ended."""


class PastRun(NamedTuple):
    """One attempt that has ended: its user, its GPUs, its start and its end (Unix seconds).

    `ran_s` is its run time if it succeeded, None otherwise, and `groups` are those that it counts for. `job_id` is the
    job for which it counts as service. `packed` is set for an attempt of a packable job.
    """

    user: str
    project: str
    queue: str
    groups: tuple[JobGroup, ...]
    gpus: float
    created_at: float
    ended_at: float
    ran_s: float | None = None
    job_id: str | None = None
    packed: PackedAttempt | None = None

    @property
    def gpu_s(self) -> float:
        """The GPU-seconds that were allocated to the attempt."""
        return self.gpus * max(0.0, self.ended_at - self.created_at)


class UsageBy(StrEnum):
    """The attributes by which usage is summed."""

    USER = "user"
    PROJECT = "project"
    QUEUE = "queue"


class ReportBy(StrEnum):
    """The attributes by which a report sums GPU time; hour and weekday are of wall-clock time."""

    USER = "user"
    PROJECT = "project"
    QUEUE = "queue"
    JOB = "job"
    MODEL = "model"
    NODE = "node"
    NAMESPACE = "namespace"
    HOUR = "hour"
    WEEKDAY = "weekday"


class AllocatedTime(NamedTuple):
    """The sums of the allocations of a user, project and queue within a period, with the same profile and enforcement.

    `gpu_s` are GPU-seconds, with half a GPU counted as half. For slices of `mig_profile` they are slice-seconds.
    `enforcement` is None if it was not recorded. `lost_gpu_s` is the part that was lost because jobs had to make room.
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
    """One allocation with devices: its job and user, its start and its end (Unix seconds; `ended_at` None is active).

    From `wasted_from` on its time was wasted: its attempt failed, was lost or had to make room, and there is no
    checkpoint of what came later; None: nothing was. `job_name` is the user's own text. `models` are the models of its
    devices when they were chosen, in the order of the members' grants; fewer if not all were recorded. `namespace` is
    as `JobSpec.namespace`.
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
    namespace: str | None = None


class MeteredHour(NamedTuple):
    """The measurements of one device of one allocation within an hour (hours since 1970).

    `used_ms` and `idle_ms` are device time, regardless of the share. `energy_mj` is the allocation's part of the
    device's energy in millijoules. `memory_most_mib` is the most memory that it was seen to use. Both are None if
    nothing was read.
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
    """`spent` with `gpu_s` more, from an allocation that ended at `at`. Hours older than HOURS_KEPT are dropped."""
    hour = int(at // HOUR_S)
    kept = spent[bisect_right(spent, hour - HOURS_KEPT, key=lambda one: one[0]) :]
    if kept and kept[-1][0] == hour:
        return (*kept[:-1], (hour, kept[-1][1] + gpu_s))
    return (*kept, (hour, gpu_s))


def spent_since(spent: Spent, at: float) -> float:
    """GPU-seconds of allocations that ended since `at`, rounded to the hour."""
    return sum(gpu_s for hour, gpu_s in spent if hour >= at // HOUR_S)
