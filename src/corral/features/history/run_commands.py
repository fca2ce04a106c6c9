"""`corral kpis`: key figures of the pool, or of each user, project, queue, node or means of sharing."""

from collections.abc import Iterator
from dataclasses import fields

from corral.cli import screen
from corral.cli.periods import period_of
from corral.cli.screen import print_json, wrapped, write_painted
from corral.cli.tables.text_table import TextTable
from corral.client import Client, Kpi, KpiRow, Kpis
from corral.core.model.units import format_duration
from corral.features.history import commands
from corral.features.history.answers import KpiSet
from corral.formatting.times import clock_span

NAME_COLUMNS = 12

TITLES = {
    "gpu_utilization": "GPU",
    "memory_utilization": "MEM",
    "compute_efficiency": "USED",
    "job_throughput": "JOBS/H",
    "job_completion_time": "TAKE",
    "queue_wait_time": "WAIT",
    "resource_allocation_time": "START",
    "temperature": "TEMP",
    "power_consumption": "POWER",
    "error_rates": "ERR",
    "hardware_failures": "HW",
}
"""The columns of a table by group. The server's response time is left out."""

_NARROW_UNITS = {"%": "%", "C": "C", "W": "W", "jobs/h": ""}


def kpis(given: commands.KpisCommand) -> None:
    """Run `corral kpis`."""
    period = period_of(given.since, given.begin, given.until, default="24h")
    with Client() as client:
        found = client.kpis(by=given.by, since=period.since, until=period.until)
    if given.json:
        print_json(found)
    elif given.by is None:
        write_painted(*pool_lines(found))
    else:
        write_painted(*group_lines(found))


def pool_lines(found: Kpis) -> Iterator[str]:
    """A table with the value and the formula of each figure."""
    table = TextTable(["KPI", "VALUE", "IS"], numeric=["VALUE"])
    kpis: dict[str, Kpi] = {field.name: getattr(found, field.name) for field in fields(KpiSet)}
    taken = max(map(len, kpis)) + max(len(shown(kpi)) for kpi in kpis.values()) + 4
    columns = screen.room()
    for name, kpi in kpis.items():
        first, *others = [kpi.formula] if columns is None else wrapped(kpi.formula, max(20, columns - taken))
        table.add(name, shown(kpi), first)
        for line in others:
            table.add("", "", line)
    yield f"from {clock_span(found.from_, found.to)}"
    yield from table.lines()


def group_lines(found: Kpis) -> Iterator[str]:
    """A table with a row for each group, and one for the pool."""
    title = (found.by or "").upper()
    table = TextTable([title, *TITLES.values()], limits={title: NAME_COLUMNS}, numeric=TITLES.values())

    def add(name: str, row: KpiRow | Kpis) -> None:
        table.add(name, *(shown(getattr(row, key), narrow=True) for key in TITLES))

    for row in found.rows:
        add(row.name, row)
    add("pool", found)
    yield from table.lines()
    if found.left_out:
        yield f"{found.left_out} more have less GPU time"


def shown(kpi: Kpi, *, narrow: bool = False) -> str:
    """The value with its unit; "-" if nothing was measured. `narrow` is the form for a column."""
    value = kpi.value
    if value is None:
        return "-"
    if kpi.unit == "s":
        return format_duration(value).split()[0] if narrow else format_duration(value)
    if kpi.unit == "failures":
        return f"{value:.0f}"
    if narrow:
        return f"{value:.1f}" if kpi.unit == "jobs/h" and value < 100 else f"{value:.0f}{_NARROW_UNITS[kpi.unit]}"
    return f"{value:.1f} {kpi.unit}"
