"""`corral queues`: quotas, their use, and the amount that is left to the caller."""

from __future__ import annotations

from corral.cli.direct.rows import rows_of
from corral.cli.screen import print_json, write_painted
from corral.cli.tables.text_table import TextTable
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport
from corral.core.model.units import count_of, format_duration, format_memory, format_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from corral.cli.commands import looking
    from corral.client import QueueRow
    from corral.core.model.queues.queue import Quota


def list_queues(given: looking.QueuesCommand) -> int:
    """Print the queues, and how many GPUs a job of this project may still get in each. Return the exit code."""
    answer = Transport(find_address()).get("/queues", project=given.project)["queues"]
    if given.json:
        print_json(answer)
    else:
        write_painted(*queue_lines(rows_of("QueueRow", answer)))
    return 0


def queue_lines(rows: Sequence[QueueRow]) -> list[str]:
    """The table of `queues`."""
    table = TextTable(
        ("QUEUE", "QUOTA", "USED", "WAITING", "LEFT", "POLICY, LIMITS"),
        limits={"QUEUE": 26, "QUOTA": 11},
        numeric=("QUOTA", "USED", "WAITING", "LEFT"),
    )
    depths: dict[str, int] = {}
    for row in rows:
        depth = 0 if row.parent is None else depths.get(row.parent, -1) + 1
        if row.kind == "queue":
            depths[row.name] = depth
        limits = ", ".join(_other_limits(row.quota))
        table.add(
            row.name if row.kind == "queue" else f"({row.kind} {row.name})",
            _share(row.quota),
            format_share(row.used_milli),
            str(row.waiting),
            "-" if row.removed else "no limit" if row.left_milli is None else format_share(row.left_milli),
            "removed; its jobs stay" if row.removed else "; ".join(filter(None, (row.policy, limits))),
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
