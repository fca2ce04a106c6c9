"""The report of jobs that did not use their whole grant, for a person."""

from collections.abc import Iterator

from corral.cli.tables.text_table import TextTable
from corral.client import Waste, WasteRow
from corral.core.model.printable import printable
from corral.core.model.units import format_memory
from corral.formatting.times import clock_time

NAME_COLUMNS = 12


def waste_lines(found: Waste) -> Iterator[str]:
    """A table, and below it a command for each job that submits it with a sufficient request."""
    if not found.rows:
        yield f"no job is known to have used less than its grant since {clock_time(found.since)}"
        return
    table = TextTable(
        ["JOB", "NAME", "USER", "HOURS", "IDLE", "GPUS", "MEMORY", "WOULD DO"],
        limits={"NAME": NAME_COLUMNS, "USER": NAME_COLUMNS},
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
