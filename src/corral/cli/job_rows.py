"""What tables say of jobs: a cell of each column for a row, apart from printing."""

import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from corral.cli.device_names import several_nodes
from corral.cli.screen import clock_time, fitted
from corral.cli.text_table import TextTable
from corral.client import DeviceRow, JobRow
from corral.model.errors import Refused, nearest
from corral.model.exit_code import exit_code_in_words
from corral.model.sweep import named_values
from corral.model.units import MILLI_PER_DEVICE, format_duration, format_memory, format_share

PHASE_STYLES = {
    "PENDING": "yellow", "STARTING": "cyan", "RUNNING": "cyan", "STOPPING": "magenta", "SUCCEEDED": "green",
    "FAILED": "red", "CANCELLED": "dim", "TIMED_OUT": "red", "LOST": "red",
}  # fmt: skip

LEAST_PARAMS_WIDTH = 20
"""Characters for the parameters of a job in a terminal of 80 columns; wider ones show more."""

Place = tuple[str, int]
"""A device's node, "" where there is only one, and its index."""

Places = Mapping[str, Place]
"""Where each device is, by UUID."""


class Column(NamedTuple):
    """A column of a table of jobs: its title, the text of a row, and how to set it.

    `limit` is its greatest width where the line is too short, `numeric` is aligned to the right.
    """

    title: str
    text: Callable[[JobRow, Places, float], str]
    limit: int | None = None
    numeric: bool = False


COLUMNS: dict[str, Column] = {
    "id": Column("ID", lambda row, places, now: row.id, 12),
    "name": Column("NAME", lambda row, places, now: row.name or _command_name(row), 14),
    "user": Column("USER", lambda row, places, now: row.user, 8),
    "state": Column("PHASE", lambda row, places, now: row.phase),
    "gpus": Column("GPUS", lambda row, places, now: _gpus(row), numeric=True),
    "time": Column("TIME", lambda row, places, now: job_time(row, now), numeric=True),
    "where": Column("WHERE, WHY", lambda row, places, now: _where_and_params(row, places), 40),
    "submitted": Column("SUBMITTED", lambda row, places, now: _moment(row.submitted_at)),
    "started": Column("STARTED", lambda row, places, now: _moment(row.started_at)),
    "ended": Column("ENDED", lambda row, places, now: _moment(row.ended_at)),
    "attempts": Column("ATTEMPTS", lambda row, places, now: str(row.attempts), numeric=True),
    "exit": Column("EXIT", lambda row, places, now: _or_dash(row.exit_code), numeric=True),
    "queue": Column("QUEUE", lambda row, places, now: row.queue, 12),
    "project": Column("PROJECT", lambda row, places, now: row.project, 12),
    "priority": Column("PRIORITY", lambda row, places, now: str(row.priority), numeric=True),
    "node": Column("NODE", lambda row, places, now: ",".join(row.nodes) or "-", 16),
    "gpu": Column("GPU", lambda row, places, now: devices_of(row, places) or "-", 16),
    "share": Column("SHARE", lambda row, places, now: _shares(row) or "-", 12),
    "memory": Column("MEMORY", lambda row, places, now: _memory(row) or "-", numeric=True),
    "reason": Column("REASON", lambda row, places, now: row.reason or "-", 40),
    "wait": Column("WAIT", lambda row, places, now: _wait(row) if row.phase == "PENDING" else "-", 16),
    "starts": Column("STARTS", lambda row, places, now: _moment(row.expected_start)),
    "begin": Column("BEGIN", lambda row, places, now: _moment(row.begin_at)),
    "limit": Column("LIMIT", lambda row, places, now: format_duration(row.time_limit_s)),
    "array": Column("ARRAY", lambda row, places, now: row.array_id or "-", 12),
    "command": Column("COMMAND", lambda row, places, now: shlex.join(row.command), 40),
}
"""The columns that a table of jobs may have, by the names that --columns takes."""

DEFAULT_COLUMNS = ("id", "name", "user", "state", "gpus", "time", "where")

_CALLED_ALSO = {"phase": "state", "job": "id", "jobid": "id", "attempt": "attempts", "exit_code": "exit"}


def parse_columns(text: str, *, field: str = "--columns") -> tuple[str, ...]:
    """The names of columns in "id,name,started". Raises Refused."""
    names = tuple(_CALLED_ALSO.get(word, word) for word in (part.strip().lower() for part in text.split(",")))
    for name in names:
        if name not in COLUMNS:
            raise Refused(f"{field}: {name!r:.40} is no column; {nearest(name, COLUMNS)}", field=field)
    return names


def needs_places(rows: Iterable[JobRow], columns: Sequence[str] = DEFAULT_COLUMNS) -> bool:
    """Whether the devices must be known to say where these jobs are."""
    return not {"where", "gpu", "node"}.isdisjoint(columns) and any(row.devices for row in rows)


def job_lines(
    rows: Sequence[JobRow],
    places: Places,
    now: float,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    *,
    header: bool = True,
) -> list[str]:
    """The table of these jobs, in the order given."""
    chosen = [COLUMNS[name] for name in columns]
    table = TextTable(
        [column.title for column in chosen],
        limits={column.title: column.limit for column in chosen if column.limit is not None},
        numeric=[column.title for column in chosen if column.numeric],
    )
    for row in rows:
        table.add(*(column.text(row, places, now) for column in chosen), style=PHASE_STYLES.get(row.phase))
    lines = table.lines(paint="PHASE" if "state" in columns else None)
    return lines if header else lines[1:]


def oldest_first(rows: Iterable[JobRow]) -> list[JobRow]:
    """In the order of their submission."""
    return sorted(rows, key=lambda row: (row.sequence or 0, row.id))


def start_lines(rows: Sequence[JobRow], *, header: bool = True) -> list[str]:
    """The table of `ps --start`, in the order given."""
    titles = ("ID", "NAME", "USER", "GPUS", "STARTS", "THAT IS", "WHY")
    table = TextTable(titles, limits={"ID": 12, "NAME": 14, "USER": 8})
    for row in rows:
        when = "?" if row.expected_start is None else clock_time(row.expected_start)
        what = row.expected_start_is or "-"
        table.add(row.id, row.name or _command_name(row), row.user, _gpus(row), when, what, _wait(row))
    return table.lines()[0 if header else 1 :]


def with_nodes(rows: Sequence[JobRow], devices: Sequence[DeviceRow]) -> list[JobRow]:
    """The rows with the nodes of jobs that have ended and had whole devices, which listings leave out."""
    node_of = {device.uuid: device.node for device in devices if device.node}
    return [
        row
        if row.nodes
        else replace(row, nodes=tuple({node_of[uuid]: None for uuid in row.devices if uuid in node_of}))
        for row in rows
    ]


def places_of(devices: Sequence[DeviceRow]) -> dict[str, Place]:
    """Where each device is, by UUID. The node is left out where there is only one."""
    several = several_nodes(devices)
    return {
        device.uuid: (device.node or "?" if several else "", device.index)
        for device in devices
        if device.index is not None
    }


def job_time(row: JobRow, now: float) -> str:
    """How long it ran or has waited; "-" if it never ran."""
    if row.started_at is not None and row.phase != "PENDING":
        return format_duration((row.ended_at or now) - row.started_at)
    return format_duration(now - row.submitted_at) if not row.ended and row.submitted_at else "-"


def job_place(row: JobRow, places: Places) -> str:
    """Where it runs or ran, why it waits, or how it ended."""
    if row.phase == "PENDING":
        start = "" if row.expected_start is None else f" starts {clock_time(row.expected_start)}"
        return f"({_wait(row)}){start}"
    if row.phase == "STOPPING" and row.reason:
        return row.reason
    if row.ended and not row.succeeded:
        code = (
            None if row.exit_code is None else exit_code_in_words(row.exit_code, row.signal, brief=bool(_shares(row)))
        )
        how = row.reason or code or row.phase.lower()
        return f"{how}; had {_part(row, places)}" if _shares(row) else how
    if not row.devices:
        return "CPU" if row.gpus == 0 else ""
    return f"GPU {devices_of(row, places)}{_share(row)}"


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
    return ",".join([*_spans([index for index in indices if index not in parts]), *_spans(parts)])


def _shares(row: JobRow) -> str:
    """Its shares of its devices, "" for whole devices: "0.6+0.6"."""
    if all(grant.share_milli == MILLI_PER_DEVICE for grant in row.grants):
        return ""
    return "+".join(format_share(grant.share_milli) for grant in row.grants)


def _memory(row: JobRow) -> str:
    """The memory that it was granted of its devices; "" where that is all of them."""
    granted = [grant.memory_mib for grant in row.grants if grant.memory_mib is not None]
    return format_memory(sum(granted)) if granted else ""


def _share(row: JobRow) -> str:
    """Its shares and what stands behind them: " 0.6+0.6, 2.4G guarded, cores advisory"."""
    shares, behind = _shares(row), row.enforcement
    if not shares:
        return ""
    memory = _memory(row) or "0M"
    return f" {shares}, {memory}" if behind is None else f" {shares}, {memory} {behind.memory}, cores {behind.compute}"


def _part(row: JobRow, places: Places) -> str:
    """What it had of shared devices: "0.5 of GPU 3 with 40G"."""
    memory = _memory(row)
    return f"{_shares(row)} of GPU {devices_of(row, places)}" + (f" with {memory}" if memory else "")


def _where_and_params(row: JobRow, places: Places) -> str:
    return f"{_params(row)}{job_place(row, places)}"


def _params(row: JobRow) -> str:
    """The parameters of a job of a sweep, as far as they leave room for where it runs: "lr=0.1 seed=1: "."""
    return f"{fitted(named_values(tuple(row.params.items())), 90, LEAST_PARAMS_WIDTH)}: " if row.params else ""


def _wait(row: JobRow) -> str:
    """Why it waits, in one word; with its begin time if it waits for that."""
    if row.held:
        return "Held"
    return f"BeginTime {clock_time(row.begin_at)}" if row.wait == "BeginTime" else row.wait or "Submitted"


def _gpus(row: JobRow) -> str:
    if row.gpus is None:
        return "-"
    return "part" if row.gpus_milli is None else format_share(row.gpus_milli)


def _moment(at: float | None) -> str:
    """A time that sorts as text and can be read by programs: "2026-11-22 10:58:03"."""
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def _spans(indices: Sequence[int]) -> list[str]:
    """Ascending numbers, three and more in a row as one: 0-3, 5, 6."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return [word for run in runs for word in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run))]


def _command_name(row: JobRow) -> str:
    return row.command[0].rpartition("/")[2] if row.command else row.kind
