"""`corral usage`: GPU-hours by user, project or queue and by month, split by how well the shares were enforced."""

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from corral.cli.commands import measuring
from corral.cli.reports.periods import Period, months_of, period_of
from corral.cli.screen import print_json, write_painted
from corral.cli.tables.csv_cells import moment, plain_cell
from corral.cli.tables.text_table import TextTable
from corral.client import Client, Usage, UsageRow
from corral.core.model.errors import Refused
from corral.core.model.runs.run_history import UsageBy
from corral.formatting.times import clock_time

NAME_COLUMNS = 14
MONTH = "month"


def usage(given: measuring.UsageCommand) -> None:
    """Run `corral usage`."""
    monthly, key = _keys(given.by)
    period = period_of(given.since, given.begin, given.until)
    with Client() as client:
        periods = list(months_of(period)) if monthly else [period]
        usages = [
            (one.month, client.usage((key or UsageBy.USER).value, since=one.since, until=one.until)) for one in periods
        ]
    if key is None:
        usages = [(month, replace(used, by=MONTH, rows=(used.total,))) for month, used in usages]
    if given.json or given.form == "json":
        print_json(_as_json(given.by, period, usages) if monthly else usages[0][1])
    elif given.form == "csv":
        write_csv(usages)
    else:
        write_painted(*(months_lines(usages) if monthly else usage_lines(usages[0][1])))


def _keys(by: str) -> tuple[bool, UsageBy | None]:
    """Whether to group by month, and the other key if any. Raises Refused."""
    names = [name.strip() for name in by.split(",")]
    others = [name for name in names if name != MONTH]
    if len(set(names)) < len(names) or len(others) > 1 or not set(others) <= {one.value for one in UsageBy}:
        allowed = ", ".join(one.value for one in UsageBy)
        raise Refused(
            f"--by: {by!r:.60} is none of {allowed}, month, or month and one of these: month,user", field="--by"
        )
    return MONTH in names, UsageBy(others[0]) if others else None


def _as_json(by: str, period: Period, usages: Sequence[tuple[str | None, Usage]]) -> Mapping[str, Any]:
    months = [{MONTH: month, **asdict(used)} for month, used in usages]
    return {"by": by, "since": period.since, "until": period.until, "months": months}


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
