"""Answers about GPU time: how much was granted and used, its cost, and fair shares."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ReportRow:
    """The GPU time of one group: half a GPU for two hours is one GPU-hour.

    Attributes:
        names: the names of the group, by the words of the report's `by`; with `job` also the job's `name`.
        gpu_hours: all granted hours, the sum of used, idle and unmetered hours.
        used_hours, idle_hours: hours with a GPU utilization of 5 % or more, and of less.
        unmetered_hours: hours for which nothing was measured.
        wasted_hours: hours of attempts that failed or were lost, and hours that jobs lost because they had to make
            room.
        reserved_hours: hours of reservations.
        energy_kwh: the measured energy, None if nothing was measured.
        cost: of the hours that have a price, in the site's currency, None if none has; `unpriced_hours` had none.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    gpu_hours: float = 0.0
    used_hours: float = 0.0
    idle_hours: float = 0.0
    unmetered_hours: float = 0.0
    wasted_hours: float = 0.0
    reserved_hours: float = 0.0
    energy_kwh: float | None = None
    cost: float | None = None
    unpriced_hours: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """The GPU time between two moments, in groups, and all of it together (`total`).

    The largest groups come first; hours and weekdays are in the order of time. With more than 10,000 rows, the smallest
    are summed in `others`, and `left_out` is their number. `currency` is the currency of the costs, None if there are
    no prices.
    """

    by: tuple[str, ...]
    since: float
    until: float
    rows: tuple[ReportRow, ...] = ()
    total: ReportRow = field(default_factory=ReportRow)
    currency: str | None = None
    others: ReportRow | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class WasteRow:
    """A job that did not use all it was granted, measured in its last attempt of ten minutes or more.

    Attributes:
        devices, devices_used: its number of GPUs, and how many it used at least 5 % of the time.
        device_hours, idle_hours: how long it had them, and how long they were idle, all together.
        memory_most_mib, memory_granted_mib: the most memory that it used of one GPU, and its grant on one GPU; None if
            not known.
        oversized: it never used 30 % of that memory.
        request: flags for a request that would have been enough.
        command: a command that submits the job with these flags.
    """

    job: str
    name: str = ""
    user: str = ""
    devices: int = 0
    devices_used: int = 0
    device_hours: float = 0.0
    idle_hours: float = 0.0
    memory_most_mib: int | None = None
    memory_granted_mib: int | None = None
    oversized: bool = False
    request: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Waste:
    """The jobs between two moments that did not use all they were granted, most idle time first; at most 100."""

    since: float
    until: float
    rows: tuple[WasteRow, ...] = ()
    left_out: int = 0


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
