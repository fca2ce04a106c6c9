"""Answers about GPU-hours and fair shares."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UsageRow:
    """GPU-hours of one user, project or queue: half a GPU for two hours is one.

    Attributes:
        gpu_hours: all of them, but for slices.
        compute_enforced_hours, compute_advisory_hours: hours in which the share of the compute was enforced, and hours
            in which nothing enforced it for the job or others.
        memory_enforced_hours, memory_guarded_hours, memory_advisory_hours: the same for memory; guarded means that the
            memory guard stops jobs that take more.
        unrecorded_hours: hours of allocations from before this was recorded.
        slice_hours: hours of MIG slices, by profile.
        lost_hours: hours that were lost because their jobs were stopped to make room for others; for jobs that got
            their checkpoint signal, only the hours after it.
        allocations: the number of allocations; a retry counts again.
    """

    name: str
    gpu_hours: float = 0.0
    compute_enforced_hours: float = 0.0
    compute_advisory_hours: float = 0.0
    memory_enforced_hours: float = 0.0
    memory_guarded_hours: float = 0.0
    memory_advisory_hours: float = 0.0
    unrecorded_hours: float = 0.0
    slice_hours: Mapping[str, float] = field(default_factory=dict)
    allocations: int = 0
    lost_hours: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """The GPU time used between two moments: a row for each user, project or queue (`by`), and the total."""

    by: str
    since: float
    until: float
    rows: tuple[UsageRow, ...] = ()
    total: UsageRow = UsageRow("total")


@dataclass(frozen=True, slots=True)
class FairShareRow:
    """The usage of a project, or of a user in it, by which the policy `fair-share` orders jobs.

    Attributes:
        user: None for the project as a whole.
        past_gpu_s: GPU-seconds of allocations that have ended, each worth half after a half-life.
        held_gpu_s: GPU-seconds of active allocations, an hour ahead.
        weighed_gpu_s: the sum of both divided by the weight: the least is next.
    """

    project: str
    user: str | None
    weight: float
    past_gpu_s: float
    held_gpu_s: float
    weighed_gpu_s: float


@dataclass(frozen=True, slots=True)
class FairShares:
    """The fair shares now, each project followed by its users; `formula` says how a figure is made."""

    half_life_s: float
    formula: str
    rows: tuple[FairShareRow, ...] = ()
