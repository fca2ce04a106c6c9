"""`corral usage`: GPU-hours by user, project or queue, split by how well the shares were enforced."""

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from corral.cli.screen import TextTable, clock_time, command_group, example, print_json, write_painted
from corral.client import Client, Usage, UsageRow
from corral.model.run_history import UsageBy
from corral.model.units import parse_duration_s

NAME_COLUMNS = 14

app = command_group()


@app.command(epilog=example("corral usage --by project --since 30d"))
def usage(
    by: Annotated[UsageBy, typer.Option("--by", help="Add up by user, project or queue.")] = UsageBy.USER,
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="How far back: 7d, 12h.")] = "7d",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show GPU-hours used, and how well the shares were enforced.

    Half a GPU for two hours is one GPU-hour. "enforced": jobs could not use more than their share. "guarded" memory:
    jobs that used more were stopped. "advisory": nothing kept jobs to their share. LOST are hours of jobs that were
    stopped to make room for others.
    """
    with Client() as client:
        used = client.usage(by.value, since=time.time() - parse_duration_s(since, field="--since"))
    if json:
        print_json(used)
    else:
        write_painted(*usage_lines(used))


def usage_lines(used: Usage) -> list[str]:
    """A table with a row for each and one for all, then what else there is to say of them."""
    if not used.rows:
        return [f"no GPU was used since {clock_time(used.since)}"]
    title = used.by.upper()
    lost = any(row.lost_hours for row in used.rows)
    titles = [title, "GPU-HOURS", *(["LOST"] if lost else []), "COMPUTE", "MEMORY"]
    table = TextTable(titles, limits={title: NAME_COLUMNS}, numeric=["GPU-HOURS", *(["LOST"] if lost else [])])
    for row in [*used.rows, used.total] if len(used.rows) > 1 else used.rows:
        hours = row.gpu_hours
        compute = _parts(hours, enforced=row.compute_enforced_hours, advisory=row.compute_advisory_hours)
        memory = _parts(
            hours,
            enforced=row.memory_enforced_hours,
            guarded=row.memory_guarded_hours,
            advisory=row.memory_advisory_hours,
        )
        table.add(row.name, f"{hours:.2f}", *([f"{row.lost_hours:.2f}"] if lost else []), compute, memory)
    return [*table.lines(), *(line for row in used.rows for line in _asides(row))]


def _parts(whole: float, **hours: float) -> str:
    """How much of the hours was what, in percent; parts that are nothing are left out."""
    return ", ".join(f"{100 * part / whole:.0f}% {name}" for name, part in hours.items() if part) or "-"


def _asides(row: UsageRow) -> Iterator[str]:
    if row.unrecorded_hours:
        yield f"{row.name}: for {row.unrecorded_hours:.2f} h it is not recorded how shares were enforced"
    if row.slice_hours:
        held = ", ".join(f"{hours:.2f} h of {profile}" for profile, hours in sorted(row.slice_hours.items()))
        yield f"{row.name}: {held} in MIG slices as well"
