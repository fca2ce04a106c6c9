"""Answers about GPU time: how much was granted and used, and its cost."""

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
