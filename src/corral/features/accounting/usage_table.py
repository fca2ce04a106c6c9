"""Usage as tables and CSV: GPU-hours by user, project or queue and by month, split by how shares were enforced."""

import csv
import sys
from collections.abc import Iterator, Sequence

from corral.cli.tables.csv_cells import moment, plain_cell
from corral.cli.tables.text_table import TextTable
from corral.client import Usage, UsageRow
from corral.formatting.times import clock_time

NAME_COLUMNS = 14
MONTH = "month"


def write_csv(usages: Sequence[tuple[str | None, Usage]]) -> None:
    """Write a line for each row of each period with all figures. Hours of slices are written as 1g.10gb=2.5."""
    monthly, by = usages[0][0] is not None, usages[0][1].by
    out = csv.writer(sys.stdout, lineterminator="\n")
    figures = [name for name in UsageRow.__dataclass_fields__ if name not in ("name", "slice_hours")]
    names = [*([MONTH] if monthly else []), *([by] if by != MONTH else [])]
    out.writerow([*names, "from", "until", *figures, "slice_hours"])
    for month, used in usages:
        for row in used.rows:
            named = [*([month] if monthly else []), *([plain_cell(row.name)] if by != MONTH else [])]
            values = [_number(getattr(row, figure)) for figure in figures]
            slices = " ".join(f"{profile}={_number(hours)}" for profile, hours in sorted(row.slice_hours.items()))
            out.writerow([*named, moment(used.since), moment(used.until), *values, slices])


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def months_lines(usages: Sequence[tuple[str | None, Usage]]) -> list[str]:
    """A table with the rows of each month in turn, and remarks on them."""
    if not any(row.gpu_hours or row.slice_hours for _, used in usages for row in used.rows):
        return [f"no GPU was used since {clock_time(usages[0][1].since)}"]
    return _table([(month, row) for month, used in usages for row in used.rows], usages[0][1].by)


def usage_lines(used: Usage) -> list[str]:
    """A table with a row for each group and one for the total, and remarks on them."""
    if not used.rows:
        return [f"no GPU was used since {clock_time(used.since)}"]
    rows = [*used.rows, used.total] if len(used.rows) > 1 else used.rows
    return [*_table([(None, row) for row in rows], used.by, asides=used.rows)]


def _table(rows: Sequence[tuple[str | None, UsageRow]], by: str, asides: Sequence[UsageRow] | None = None) -> list[str]:
    title = [] if by == MONTH else [by.upper()]
    monthly = [MONTH.upper()] if rows[0][0] is not None else []
    lost = ["LOST"] if any(row.lost_hours for _, row in rows) else []
    table = TextTable(
        [*monthly, *title, "GPU-HOURS", *lost, "COMPUTE", "MEMORY"],
        limits=dict.fromkeys(title, NAME_COLUMNS),
        numeric=["GPU-HOURS", *lost],
    )
    for month, row in rows:
        names = [*([month or ""] if monthly else []), *([row.name] if title else [])]
        table.add(*names, f"{row.gpu_hours:.2f}", *([f"{row.lost_hours:.2f}"] if lost else []), *_behind(row))
    explained = [row for _, row in rows] if asides is None else asides
    return [*table.lines(), *(line for row in explained for line in _asides(row))]


def _behind(row: UsageRow) -> tuple[str, str]:
    hours = row.gpu_hours
    compute = _parts(hours, enforced=row.compute_enforced_hours, advisory=row.compute_advisory_hours)
    memory = _parts(
        hours, enforced=row.memory_enforced_hours, guarded=row.memory_guarded_hours, advisory=row.memory_advisory_hours
    )
    return compute, memory


def _parts(whole: float, **hours: float) -> str:
    """The part of each kind of hours in percent. Parts that are zero are left out."""
    return ", ".join(f"{100 * part / whole:.0f}% {name}" for name, part in hours.items() if part) or "-"


def _asides(row: UsageRow) -> Iterator[str]:
    if row.unrecorded_hours:
        yield f"{row.name}: for {row.unrecorded_hours:.2f} h it is not recorded how shares were enforced"
    if row.slice_hours:
        slices = ", ".join(f"{hours:.2f} h of {profile}" for profile, hours in sorted(row.slice_hours.items()))
        yield f"{row.name}: {slices} in MIG slices as well"
