"""`corral queues`: quotas, what is used of them, and what is left to whoever asks."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from corral.cli.screen import command_group, example, print_json, write_painted
from corral.cli.text_table import TextTable
from corral.client import Client, QueueRow
from corral.model.queue import Quota
from corral.model.units import count_of, format_duration, format_memory, format_share

app = command_group()


@app.command(epilog=example("corral queues --project vision"))
def queues(
    project: Annotated[
        str, typer.Option("--project", metavar="PROJECT", help="The project of the job that you have in mind.")
    ] = "default",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List queues: their quotas, use, and what is left to you.

    Quotas and use are in GPUs; after a + is what a queue may borrow. A queue's use and waiting jobs count those of the
    queues below it. LEFT is what one more job of yours may have there by all quotas: of the queue and those above it,
    with what can be borrowed now, yours and the project's. Whether so many GPUs are free, `corral status` shows. A
    queue that was removed is listed while jobs are in it.
    """
    with Client() as client:
        rows = client.queues(project)
    if json:
        print_json(rows)
    else:
        write_painted(*queue_lines(rows))


def queue_lines(rows: Sequence[QueueRow]) -> list[str]:
    """The table of `queues`."""
    table = TextTable(
        ("QUEUE", "QUOTA", "USED", "WAITING", "LEFT", "OTHER LIMITS"),
        limits={"QUEUE": 26, "QUOTA": 11},
        numeric=("QUOTA", "USED", "WAITING", "LEFT"),
    )
    depths: dict[str, int] = {}
    for row in rows:
        depth = 0 if row.parent is None else depths.get(row.parent, -1) + 1
        if row.kind == "queue":
            depths[row.name] = depth
        table.add(
            row.name if row.kind == "queue" else f"({row.kind} {row.name})",
            _share(row.quota),
            format_share(row.used_milli),
            str(row.waiting),
            "-" if row.removed else "no limit" if row.left_milli is None else format_share(row.left_milli),
            "removed; its jobs stay" if row.removed else ", ".join(_other_limits(row.quota)),
            indent=2 * depth,
        )
    return table.lines()


def _share(quota: Quota) -> str:
    if quota.share_milli is None:
        return "-"
    borrows = f" +{format_share(quota.borrow_milli)}" if quota.borrow_milli else ""
    return format_share(quota.share_milli) + borrows


def _other_limits(quota: Quota) -> Iterator[str]:
    if quota.running is not None:
        yield f"{count_of(quota.running, 'job')} running"
    if quota.waiting is not None:
        yield f"{quota.waiting} waiting"
    if quota.devices is not None:
        yield f"{count_of(quota.devices, 'GPU')} touched"
    if quota.memory_mib is not None:
        yield f"{format_memory(quota.memory_mib)} of GPU memory"
    if quota.gpu_hours is not None and quota.period_s is not None:
        yield f"{quota.gpu_hours:g} GPU-hours in {format_duration(quota.period_s)}"
