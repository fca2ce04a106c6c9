"""Answers about GPU-hours and fair shares."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UsageRow:
    """GPU-hours of one user, project or queue: half a GPU for two hours is one.

    Attributes:
        gpu_hours: all of them, but for slices.
        compute_enforced_hours, compute_advisory_hours: those in which the share of the compute was held to, and those
            in which nothing held the job or its neighbours to it.
        memory_enforced_hours, memory_guarded_hours, memory_advisory_hours: the same of the memory, where the memory
            guard stops who takes more.
        unrecorded_hours: those of allocations from before it was recorded.
        slice_hours: hours of MIG slices, by profile.
        lost_hours: those that were for nothing, as their jobs were stopped to make room for others; of jobs that were
            notified by their checkpoint signal only those after it.
        allocations: how many there were; a retry counts again.
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
    """What was used between two moments, a row for each user, project or queue (`by`), and all of it together."""

    by: str
    since: float
    until: float
    rows: tuple[UsageRow, ...] = ()
    total: UsageRow = UsageRow("total")


@dataclass(frozen=True, slots=True)
class FairShareRow:
    """What a project, or a user in it, counts as having used, by which the policy `fair-share` orders jobs.

    Attributes:
        user: None of the project as a whole.
        past_gpu_s: GPU-seconds of allocations that have ended, each worth half after a half-life.
        held_gpu_s: GPU-seconds of those that last, an hour ahead.
        weighed_gpu_s: both together by the weight: who has least is next.
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
