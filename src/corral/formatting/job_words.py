"""A job in a few words: its time and place, why it waits, how it ended."""

from __future__ import annotations

from collections.abc import Mapping

from corral.core.model.jobs.array_indices import spans
from corral.core.model.runs.exit_code import exit_code_in_words
from corral.core.model.units import MILLI_PER_DEVICE, format_duration, format_memory, format_share
from corral.formatting.times import clock_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from corral.client import DeviceRow, JobRow

PHASE_STYLES = {
    "PENDING": "yellow", "STARTING": "cyan", "RUNNING": "cyan", "STOPPING": "magenta", "SUCCEEDED": "green",
    "FAILED": "red", "CANCELLED": "dim", "TIMED_OUT": "red", "LOST": "red",
}  # fmt: skip

Place = tuple[str, int]
"""A device's node, "" where there is only one, and its index."""

Places = Mapping[str, Place]
"""The place of each device, by UUID."""


def places_of(devices: Sequence[DeviceRow], rows: Iterable[JobRow] = ()) -> dict[str, Place]:
    """Return the place of each device, by UUID. The node is left out where there is only one, the server's own machine.

    These jobs may be on others.
    """
    nodes = {*(device.node for device in devices), *(node for row in rows for node in row.nodes)}
    several = len(nodes) > 1 or any(device.joined for device in devices)
    return {
        device.uuid: (device.node or "?" if several else "", device.index)
        for device in devices
        if device.index is not None
    }


def job_time(row: JobRow, now: float) -> str:
    """The time that the job ran or has waited; "-" if it never ran."""
    seconds = run_or_wait_s(row, now)
    return "-" if seconds is None else format_duration(seconds)


def run_or_wait_s(row: JobRow, now: float) -> float | None:
    """The time that the job ran or has waited; None if it never ran."""
    if row.started_at is not None and row.phase != "PENDING":
        return (row.ended_at or now) - row.started_at
    return now - row.submitted_at if not row.ended and row.submitted_at else None


def job_place(row: JobRow, places: Places) -> str:
    """Where it runs or ran, why it waits or does not begin, or how it ended."""
    if row.phase == "PENDING":
        start = "" if row.expected_start is None else f" starts {clock_time(row.expected_start)}"
        return f"({wait_word(row)}){start}"
    if row.phase == "STOPPING" and row.reason:
        return row.reason
    if row.ended and not row.succeeded:
        code = (
            None if row.exit_code is None else exit_code_in_words(row.exit_code, row.signal, brief=bool(shares_of(row)))
        )
        how = row.reason or code or row.phase.lower()
        return f"{how}; had {_part(row, places)}" if shares_of(row) else how
    where = _cpu_place(row, places) if row.gpus == 0 else ""
    if row.devices:
        where = f"GPU {devices_of(row, places)}{_share(row)}"
    return f"{where}; {row.reason}" if row.phase in ("STARTING", "RUNNING") and row.reason else where


def _cpu_place(row: JobRow, places: Places) -> str:
    """Its nodes are left out where the devices are all on one, and it is on no other."""
    several = not places or any(node for node, _ in places.values())
    return " ".join(["CPU", *row.nodes]) if several else "CPU"


def devices_of(row: JobRow, places: Places) -> str:
    """The indices of its devices, by node where there are several: "0-3,5", "gpu-01:0,1 gpu-02:1"."""
    by_node: dict[str, list[int]] = {}
    for node, index in (places[uuid] for uuid in row.devices if uuid in places):
        by_node.setdefault(node, []).append(index)
    listed = {node: _by_share(row, of, places) for node, of in by_node.items()}
    known = [f"{node}:{indices}" if node else indices for node, indices in listed.items()]
    where = [*known, *(uuid for uuid in row.devices if uuid not in places)]
    return (" " if len(by_node) > 1 else ",").join(where)


def _by_share(row: JobRow, indices: Sequence[int], places: Places) -> str:
    """The indices of its devices on a node; if it has some of them whole, in the order of its shares: those first."""
    whole = {
        places[grant.uuid][1] for grant in row.grants if grant.share_milli == MILLI_PER_DEVICE and grant.uuid in places
    }
    parts = [index for index in indices if index not in whole] if whole else []
    return ",".join([*spans([index for index in indices if index not in parts]), *spans(parts)])


def shares_of(row: JobRow) -> str:
    """Its shares of its devices, "" for whole devices: "0.6+0.6"."""
    if all(grant.share_milli == MILLI_PER_DEVICE for grant in row.grants):
        return ""
    return "+".join(format_share(grant.share_milli) for grant in row.grants)


def memory_of(row: JobRow) -> str:
    """The memory that it was granted of its devices; "" where that is all of them."""
    granted = [grant.memory_mib for grant in row.grants if grant.memory_mib is not None]
    return format_memory(sum(granted)) if granted else ""


def _share(row: JobRow) -> str:
    """Its shares and what stands behind them: " 0.6+0.6, 2.4G guarded, compute advisory"."""
    shares, behind = shares_of(row), row.enforcement
    if not shares:
        return ""
    memory = memory_of(row) or "0M"
    enforced = "" if behind is None else f" {behind.memory}, compute {behind.compute}"
    return f" {shares}, {memory}{enforced}"


def _part(row: JobRow, places: Places) -> str:
    """The part of shared devices that the job had: "0.5 of GPU 3 with 40G"."""
    memory = memory_of(row)
    return f"{shares_of(row)} of GPU {devices_of(row, places)}" + (f" with {memory}" if memory else "")


def wait_word(row: JobRow) -> str:
    """Why it waits, in one word; with its begin time if it waits for that."""
    if row.held:
        return "Held"
    return f"BeginTime {clock_time(row.begin_at)}" if row.wait == "BeginTime" else row.wait or "Submitted"


def gpus_asked(row: JobRow) -> str:
    """The number of GPUs that the job has or asks for; "part" if it asks for memory and has none yet."""
    if row.gpus is None:
        return "-"
    return "part" if row.gpus_milli is None else format_share(row.gpus_milli)


def job_called(row: JobRow) -> str:
    """Its name, else the name of its program."""
    return row.name or (row.command[0].rpartition("/")[2] if row.command else row.kind)
