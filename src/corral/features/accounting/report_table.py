"""Reports as tables and CSV: granted GPU-hours by chosen keys, and jobs that did not use their whole grant."""

import csv
import sys
from collections.abc import Iterator, Sequence

from corral.cli.tables.csv_cells import moment, plain_cell
from corral.cli.tables.text_table import TextTable
from corral.client import Report, ReportRow, Waste, WasteRow
from corral.core.model.printable import printable
from corral.core.model.units import WEEKDAYS, format_memory
from corral.formatting.times import clock_time

NAME_COLUMNS = 14
WASTE_COLUMNS = 12
GRID = {"hour", "weekday"}
"""With exactly these two keys, the table has a row for each hour and a column for each weekday."""

_FIGURES = (
    *("gpu_hours", "used_hours", "idle_hours", "unmetered_hours", "wasted_hours", "reserved_hours"),
    *("energy_kwh", "cost", "unpriced_hours"),
)


def write_csv(found: Report) -> None:
    """Write a line for each row with all its figures. Unknown figures are empty."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    rows = [*found.rows, *([found.others] if found.others is not None else [])]
    names = list(dict.fromkeys(name for row in rows for name in row.names)) or list(found.by)
    out.writerow([*names, "from", "until", *_FIGURES, "currency"])
    for row in rows:
        cells = [plain_cell(row.names.get(name, "(others)")) for name in names]
        figures = ["" if value is None else number(value) for value in (getattr(row, name) for name in _FIGURES)]
        out.writerow([*cells, moment(found.since), moment(found.until), *figures, plain_cell(found.currency or "")])


def number(value: float) -> str:
    """A number with up to nine digits after the point. In hours, that is less than a millisecond."""
    return f"{value:.9f}".rstrip("0").rstrip(".")


def report_lines(found: Report) -> Iterator[str]:
    """A table, and remarks on it."""
    if not found.rows:
        yield f"no GPU was granted since {clock_time(found.since)}"
        return
    if set(found.by) == GRID:
        yield from _grid(found)
    else:
        yield from _table(found)
    total = found.total
    if total.unpriced_hours and total.cost is not None:
        yield f"for {total.unpriced_hours:.2f} GPU-hours there is no price"


def _table(found: Report) -> list[str]:
    names = list(found.rows[0].names)
    wasted = ["WASTED"] if found.total.wasted_hours else []
    reserved = ["RESERVED"] if found.total.reserved_hours else []
    cost = [f"COST {found.currency or ''}".strip()] if found.total.cost is not None else []
    titles = ["GPU-HOURS", "USED", "IDLE", "UNMETERED", *wasted, *reserved, "KWH", *cost]
    table = TextTable(
        [*(name.upper() for name in names), *titles],
        limits={name.upper(): NAME_COLUMNS for name in names},
        numeric=titles,
    )

    def add(cells: Sequence[str], row: ReportRow) -> None:
        parts = (row.used_hours, row.idle_hours, row.unmetered_hours)
        marks = [*([row.wasted_hours] if wasted else []), *([row.reserved_hours] if reserved else [])]
        table.add(
            *cells,
            f"{row.gpu_hours:.2f}",
            *(percent(part, row.gpu_hours) for part in (*parts, *marks)),
            "-" if row.energy_kwh is None else f"{row.energy_kwh:.2f}",
            *(["-" if row.cost is None else f"{row.cost:.2f}"] if cost else []),
        )

    for row in found.rows:
        add([row.names[name] for name in names], row)
    blanks = [""] * (len(names) - 1)
    if found.others is not None:
        add([f"{found.left_out} others", *blanks], found.others)
    if len(found.rows) > 1:
        add(["total", *blanks], found.total)
    return table.lines()


def _grid(found: Report) -> list[str]:
    """GPU-hours by hour and weekday, and how much of them was used."""
    cells = {(row.names["hour"], row.names["weekday"]): row for row in found.rows}
    days = [day for day in WEEKDAYS if any(day == weekday for _, weekday in cells)]
    table = TextTable(["HOUR", *(day.upper() for day in days)], numeric=[day.upper() for day in days])
    for hour in sorted({hour for hour, _ in cells}):
        table.add(hour, *(_cell(cells.get((hour, day))) for day in days))
    total = found.total
    used = percent(total.used_hours, total.gpu_hours)
    return [
        *table.lines(),
        f"{total.gpu_hours:.2f} GPU-hours in all; beside the hours, how much of them was used: {used}",
    ]


def _cell(row: ReportRow | None) -> str:
    if row is None:
        return "-"
    hours = f"{row.gpu_hours:.1f}" if row.gpu_hours < 100 else f"{row.gpu_hours:.0f}"
    return f"{hours} {percent(row.used_hours, row.gpu_hours)}"


def percent(part: float, whole: float) -> str:
    """A part of the whole in percent; "-" if the whole is zero."""
    return f"{100 * part / whole:.0f}%" if whole else "-"


def waste_lines(found: Waste) -> Iterator[str]:
    """A table, and below it a command for each job that submits it with a sufficient request."""
    if not found.rows:
        yield f"no job is known to have used less than its grant since {clock_time(found.since)}"
        return
    table = TextTable(
        ["JOB", "NAME", "USER", "HOURS", "IDLE", "GPUS", "MEMORY", "WOULD DO"],
        limits={"NAME": WASTE_COLUMNS, "USER": WASTE_COLUMNS},
        numeric=["HOURS", "IDLE"],
    )
    for row in found.rows:
        idle = f"{100 * row.idle_hours / row.device_hours:.0f}%" if row.device_hours else "-"
        gpus = f"{row.devices_used} of {row.devices}"
        table.add(row.job, row.name, row.user, f"{row.device_hours:.2f}", idle, gpus, _memory(row), row.request)
    yield from table.lines()
    if found.left_out:
        yield f"and {found.left_out} more"
    yield ""
    for row in found.rows:
        yield f"{row.job}: {printable(row.command)}"


def _memory(row: WasteRow) -> str:
    if row.memory_most_mib is None:
        return "-"
    granted = "" if row.memory_granted_mib is None else f" of {format_memory(row.memory_granted_mib)}"
    return f"{format_memory(row.memory_most_mib)}{granted}"
