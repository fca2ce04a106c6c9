"""Answers about GPU time: how much was granted and used, and its cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ReportRow:
    """What was granted to those who are counted together: half a GPU for two hours is one GPU-hour.

    Attributes:
        names: who or what they are, by the words of the report's `by`; with `job` also the job's `name`.
        gpu_hours: all that was granted, which is used, idle and unmetered hours together.
        used_hours, idle_hours: those in which the GPUs' utilization was 5 % or more, and less.
        unmetered_hours: those for which nothing was measured.
        wasted_hours: those of attempts that failed or were lost, and those that jobs lost which had to make room.
        reserved_hours: those of reservations.
        energy_kwh: the energy of what was measured, None where nothing was.
        cost: of the hours that have a price, in the site's currency, None where none has; `unpriced_hours` had none.
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
    """What was granted between two moments, by some words, and all of it together (`total`).

    The largest come first; by hour or weekday they are in the order of time. Of more than 10,000 rows the smallest are
    together in `others`, and `left_out` is how many they are. `currency` is that of the costs, None where there are no
    prices.
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
    """A job that did not use what it was granted, as its last attempt of ten minutes or more showed.

    Attributes:
        devices, devices_used: how many GPUs it had, and how many it used at least 5 % of the time.
        device_hours, idle_hours: how long it had them, and how long they were idle, all together.
        memory_most_mib, memory_granted_mib: the most GPU memory that it used of one, and what it was granted of one;
            None where that is not known.
        oversized: it never used 30 % of that memory.
        request: what would have done, as flags.
        command: a command that submits it so.
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
    """The jobs between two moments that did not use what they were granted, most idle time first; at most 100."""

    since: float
    until: float
    rows: tuple[WasteRow, ...] = ()
    left_out: int = 0
