"""`corral ps`, `status` and `devices`: tables of jobs and GPUs."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Annotated

import typer

from corral.cli.gauges import GaugeLayout, bars_line, layout_for
from corral.cli.screen import (
    TextTable,
    clipped,
    clipped_line,
    clock_time,
    command_group,
    example,
    fitted,
    painted,
    print_json,
    room,
    say,
    width,
    wrapped,
    write_painted,
)
from corral.client import Address, Client, DeviceRow, HolderRow, JobRow, ServerInfo
from corral.model.printable import printable
from corral.model.sweep import named_values
from corral.model.units import MILLI_PER_DEVICE, format_duration, format_memory, format_share

PAGE = 100
LONGEST_PAGE = 10_000
"""The most jobs that a server lists in one answer, unless asked for all."""

LEAST_PARAMS_WIDTH = 20
"""Characters for the parameters of a job in a terminal of 80 columns; wider ones show more."""

PHASE_STYLES = {
    "PENDING": "yellow", "STARTING": "cyan", "RUNNING": "cyan", "STOPPING": "magenta", "SUCCEEDED": "green",
    "FAILED": "red", "CANCELLED": "dim", "TIMED_OUT": "red", "LOST": "red",
}  # fmt: skip
STATE_STYLES = {
    "free": "green", "allocated": "cyan", "reserved": "blue", "in_use": "yellow", "stale": "yellow",
    "cordoned": "magenta", "unhealthy": "red", "unreadable": "red",
}  # fmt: skip

Place = tuple[str, int]
"""A device's node, "" where there is only one, and its index."""

Gauge = Callable[[DeviceRow], str]
"""Makes the line of a device."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = command_group()


@app.command(epilog=example("corral ps --user alice"))
def ps(
    every: Annotated[bool, typer.Option("--all", "-a", help="Also list jobs that have ended.")] = False,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Only jobs of this user.")] = None,
    start: Annotated[bool, typer.Option("--start", help="Only waiting jobs, with their expected start times.")] = False,
    limit: Annotated[
        int,
        typer.Option("--limit", min=0, max=LONGEST_PAGE - 1, metavar="N", help="List the newest N jobs; 0 lists all."),
    ] = PAGE,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, always of all jobs.")] = False,
) -> None:
    """List jobs that wait or run.

    TIME is how long a job has run, or waited so far. The last column shows where it runs, why it waits or how it ended.
    """
    with Client() as client:
        if start:
            _show_starts(client, user, json=json)
            return
        if json:
            print_json(client.jobs.list(all=every, user=user, limit=None))
            return
        rows, more = newest_jobs(client, every=every, user=user, limit=limit or None)
        devices = client.devices.list() if any(row.devices for row in rows) else ()
    write_painted(*job_lines(rows, places_of(devices), time.time()))
    if more:
        say(f"only the newest {len(rows)} jobs are listed; --limit 0 lists all")


def _show_starts(client: Client, user: str | None, *, json: bool) -> None:
    """List waiting jobs by expected start; those whose start cannot be predicted come last."""
    rows = client.jobs.list(phase="PENDING", user=user, limit=None, starts=True)
    ordered = sorted(rows, key=lambda row: (row.expected_start or inf, row.sequence or 0, row.id))
    if json:
        print_json(ordered)
        return
    write_painted(*start_lines(ordered))


@app.command(epilog=example("corral status"))
def status(
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it anew each second, with power and bars, until Ctrl-C.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show each GPU, its state, and who uses it.

    One line per GPU: temperature, utilization, memory, state, and the jobs that have it. Below it, processes that
    Corral did not start.
    """
    with Client() as client:
        if watch:
            from corral.cli.live import show_live

            show_live(lambda: status_lines(client.server(), client.devices.list(), bars=True), "status")
            return
        devices = client.devices.list()
        if json:
            print_json(devices)
            return
        server = client.server()
    write_painted(*status_lines(server, devices))
    if (at := elsewhere(client.address)) is not None:
        write_painted(painted(fitted(f"server: {at}"), "dim"))


@app.command(epilog=example("corral devices --json"))
def devices(json: AsJson = False) -> None:
    """List all GPUs with their UUIDs and models."""
    with Client() as client:
        rows = client.devices.list()
    if json:
        print_json(rows)
    else:
        write_painted(*device_lines(rows))


def newest_jobs(client: Client, *, every: bool, user: str | None, limit: int | None) -> tuple[Sequence[JobRow], bool]:
    """The newest `limit` jobs, running ones before all others, and whether there are more."""
    newest = client.jobs.list(all=every, user=user, limit=None if limit is None else min(limit + 1, LONGEST_PAGE))
    if limit is None or len(newest) <= limit:
        return newest, False
    under_way = client.jobs.list(phase="STARTING,RUNNING,STOPPING", user=user, limit=None)
    rows = {row.id: row for row in (*under_way, *newest)}
    return list(rows.values())[:limit], True


def elsewhere(address: Address) -> str | None:
    """Where the server is, if it is not the one in ~/.corral."""
    if address.url:
        return address.url
    root = str(address.home.root)
    return None if root == os.path.expanduser("~/.corral") else root


def several_nodes(devices: Sequence[DeviceRow]) -> bool:
    """Whether they are of more than one node, so that an index does not tell which device is meant."""
    return len({device.node for device in devices}) > 1


def places_of(devices: Sequence[DeviceRow]) -> dict[str, Place]:
    """Where each device is, by UUID. The node is left out where there is only one."""
    several = several_nodes(devices)
    return {
        device.uuid: (device.node or "?" if several else "", device.index)
        for device in devices
        if device.index is not None
    }


def device_called(device: DeviceRow, several: bool) -> str:
    """The index of a device, after its node where there are several: "3", "gpu-07:3"."""
    index = _or(device.index, "?")
    return f"{device.node}:{index}" if several else index


def job_lines(rows: Sequence[JobRow], places: Mapping[str, Place], now: float) -> list[str]:
    """The table of `ps`, oldest job first."""
    table = TextTable(
        ("ID", "NAME", "USER", "PHASE", "GPUS", "TIME", "WHERE, WHY"),
        limits={"ID": 12, "NAME": 14, "USER": 8},
        numeric=("GPUS", "TIME"),
    )
    for row in sorted(rows, key=lambda row: (row.sequence or 0, row.id)):
        shown = (row.id, row.name or _command_name(row), row.user, row.phase, _gpus(row))
        table.add(
            *shown, job_time(row, now), f"{_params(row)}{job_place(row, places)}", style=PHASE_STYLES.get(row.phase)
        )
    return table.lines(paint="PHASE")


def _params(row: JobRow) -> str:
    """The parameters of a job of a sweep, as far as they leave room for where it runs: "lr=0.1 seed=1: "."""
    if not row.params:
        return ""
    return clipped(named_values(tuple(row.params.items())), max(LEAST_PARAMS_WIDTH, width() - 90)) + ": "


def start_lines(rows: Sequence[JobRow]) -> list[str]:
    """The table of `ps --start`, in the order given."""
    titles = ("ID", "NAME", "USER", "GPUS", "STARTS", "THAT IS", "WHY")
    table = TextTable(titles, limits={"ID": 12, "NAME": 14, "USER": 8})
    for row in rows:
        when = "?" if row.expected_start is None else clock_time(row.expected_start)
        what = row.expected_start_is or "-"
        table.add(row.id, row.name or _command_name(row), row.user, _gpus(row), when, what, _wait(row))
    return table.lines()


def _wait(row: JobRow) -> str:
    """Why it waits, in one word; with its begin time if it waits for that."""
    if row.held:
        return "Held"
    return f"BeginTime {clock_time(row.begin_at)}" if row.wait == "BeginTime" else row.wait or "Submitted"


def _gpus(row: JobRow) -> str:
    if row.gpus is None:
        return "-"
    return "part" if row.gpus_milli is None else format_share(row.gpus_milli)


def job_time(row: JobRow, now: float) -> str:
    """How long it ran or has waited; "-" if it never ran."""
    if row.started_at is not None and row.phase != "PENDING":
        return format_duration((row.ended_at or now) - row.started_at)
    return format_duration(now - row.submitted_at) if not row.ended and row.submitted_at else "-"


def job_place(row: JobRow, places: Mapping[str, Place]) -> str:
    """Where it runs, why it waits, or how it ended."""
    if row.phase == "PENDING":
        start = "" if row.expected_start is None else f" starts {clock_time(row.expected_start)}"
        return f"({_wait(row)}){start}"
    if row.phase == "STOPPING" and row.reason:
        return row.reason
    if row.ended and not row.succeeded:
        return row.reason or (f"exit code {row.exit_code}" if row.exit_code is not None else row.phase.lower())
    if not row.devices:
        return "CPU" if row.gpus == 0 else ""
    by_node: dict[str, list[int]] = {}
    for node, index in (places[uuid] for uuid in row.devices if uuid in places):
        by_node.setdefault(node, []).append(index)
    listed = {node: _by_share(row, of, places) for node, of in by_node.items()}
    known = [f"{node}:{indices}" if node else indices for node, indices in listed.items()]
    where = [*known, *(uuid for uuid in row.devices if uuid not in places)]
    return f"GPU {(' ' if len(by_node) > 1 else ',').join(where)}{_share(row)}"


def _by_share(row: JobRow, indices: Sequence[int], places: Mapping[str, Place]) -> str:
    """The indices of its devices on a node; if it has some of them whole, in the order of its shares: those first."""
    whole = {
        places[grant.uuid][1] for grant in row.grants if grant.share_milli == MILLI_PER_DEVICE and grant.uuid in places
    }
    parts = [index for index in indices if index not in whole] if whole and row.enforcement is not None else []
    return ",".join([*_spans([index for index in indices if index not in parts]), *_spans(parts)])


def _share(row: JobRow) -> str:
    """Its shares of its devices, "" for whole devices: " 0.6+0.6, 2.4G guarded, cores advisory"."""
    if row.enforcement is None or not row.grants or all(grant.share_milli == MILLI_PER_DEVICE for grant in row.grants):
        return ""
    shares = "+".join(format_share(grant.share_milli) for grant in row.grants)
    memory = format_memory(sum(grant.memory_mib or 0 for grant in row.grants))
    return f" {shares}, {memory} {row.enforcement.memory}, cores {row.enforcement.compute}"


def _spans(indices: Sequence[int]) -> list[str]:
    """Ascending numbers, three and more in a row as one: 0-3, 5, 6."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return [word for run in runs for word in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run))]


def status_lines(server: ServerInfo, devices: Sequence[DeviceRow], *, bars: bool = False) -> list[str]:
    """The table of `status`: one line per GPU, as gpustat shows them or with bars, and the processes on it."""
    driver = f"driver {server.driver_version}" if server.driver_version else f"source {server.source or 'unknown'}"
    kind = "mock devices" if server.mock else driver
    several = several_nodes(devices)
    here = f"{len({device.node for device in devices})} nodes" if several else server.node or "this machine"
    lines = [painted(f"{here}  {_free_of(devices)}  {kind}", "bold")]
    if server.obstacle is not None:
        obstacle = printable(f"nothing starts now: {server.obstacle}")
        lines += [painted(line, "red") for line in wrapped(obstacle, room() or len(obstacle))]
    longest = max((len(device.mig_profile or _short_model(device.name)) for device in devices), default=0)
    gauge: Gauge = partial(_gauge_line, name_width=min(19, longest))
    if bars:
        gauge = partial(_bars_line, layout=layout_for(width(), devices))
    if not several:
        return lines + [line for device in devices for line in _device_status(device, gauge, None)]
    for node in dict.fromkeys(device.node for device in devices):
        lines += _node_status(node or "?", [device for device in devices if device.node == node], gauge)
    return lines


def _free_of(devices: Sequence[DeviceRow]) -> str:
    given = [device for device in devices if not device.sliced]
    return f"{sum(device.state == 'free' for device in given)} of {len(given)} GPUs free"


def _node_status(node: str, devices: Sequence[DeviceRow], gauge: Gauge) -> list[str]:
    """The lines of one node. What is wrong with all of its devices is said once."""
    notes = {_state_note(device) for device in devices}
    shared = notes.pop() if len(notes) == 1 and len(devices) > 1 else None
    lines = [painted(f"{node}  {_free_of(devices)}", "bold")]
    lines += [clipped_line("  " + shared)] if shared else []
    return lines + [line for device in devices for line in _device_status(device, gauge, shared)]


def _device_status(device: DeviceRow, gauge: Gauge, said: str | None) -> list[str]:
    """The line of a device, and what there is to note of it but what is `said` already."""
    notes = [note for note in _notes(device) if note != said]
    return [gauge(device), *(clipped_line("      " + note) for note in notes)]


def device_lines(rows: Sequence[DeviceRow]) -> list[str]:
    """The table of `devices`."""
    means = [row.mig_profile or row.means or "?" for row in rows]
    # If all are shared the same way, one line below the table says so and leaves the models more room.
    mixed, several = len(set(means)) > 1, several_nodes(rows)
    titles = ("GPU", "UUID", "MEMORY", "CC", *(["SHARED"] if mixed else []), "MODEL")
    table = TextTable(titles, limits={"UUID": 40}, numeric=("GPU", "MEMORY"))
    for row, shared in zip(rows, means, strict=True):
        cells = (device_called(row, several), row.uuid, format_memory(row.memory_total_mib))
        table.add(*cells, row.compute_capability or "?", *([shared] if mixed else []), _short_model(row.name))
    below = [] if mixed or not rows else [f"shared: {means[0]}"]
    below += [clipped_line(f"GPU {device_called(row, several)} is {state_in_words(row)}") for row in rows if ill(row)]
    return table.lines() + below


def ill(device: DeviceRow) -> bool:
    """Whether the device itself keeps jobs from starting on it."""
    return device.state in ("unreadable", "unhealthy")


def state_in_words(device: DeviceRow) -> str:
    """What is wrong with it, since when and why: "unhealthy since 14:20: it is at 97°C, and ..."."""
    since = "" if device.state_since is None else f" since {clock_time(device.state_since)}"
    return f"{device.state}{since}" + (f": {device.state_reason}" if device.state_reason else "")


def _gauge_line(device: DeviceRow, name_width: int) -> str:
    name = clipped(device.mig_profile or _short_model(device.name), name_width).ljust(name_width)
    heat = f"{_or(device.temperature_c, '?'):>3}'C"
    use = f"{_or(device.utilization_pct, '?'):>3} %"
    memory = f"{_or(device.memory_used_mib, '?'):>5} / {_or(device.memory_total_mib, '?'):>5} MB"
    state = painted(device.state, STATE_STYLES.get(device.state, "bold"))
    who = _holders(device)
    line = f"[{_or(device.index, '?')}] {name} | {heat}, {use} | {memory} | "
    return line + state + (f" {fitted(who, len(line) + len(device.state) + 1)}" if who else "")


def _bars_line(device: DeviceRow, layout: GaugeLayout) -> str:
    return bars_line(device, _holders(device), layout, STATE_STYLES.get(device.state, "bold"))


def _holders(device: DeviceRow) -> str:
    """The jobs that have it, with their users and shares."""
    return " ".join(map(_holder, device.holders))


def _holder(holder: HolderRow) -> str:
    share = "" if holder.share_milli == 1000 else f" x{format_share(holder.share_milli)}"
    return f"{holder.user}/{holder.job}{share}"


def _notes(device: DeviceRow) -> list[str]:
    """Who uses it besides the jobs that have it, and what is wrong with it."""
    state = _state_note(device)
    notes = [] if state is None else [state]
    holders = [holder.job for holder in device.holders]
    for process in device.processes:
        if process.job not in holders:
            since = f" since {clock_time(device.since)}" if device.since else ""
            memory = "" if process.memory_mib is None else f"({process.memory_mib}M)"
            job = "" if process.job is None else f" of job {process.job}"
            notes.append(f"{process.user or '?'}/{process.pid}{memory}{job}{since}: {process.command or '?'}")
    return notes


def _state_note(device: DeviceRow) -> str | None:
    """Why it takes no job, where that is known."""
    if ill(device):
        return state_in_words(device)
    needs_reason = device.state_reason and device.state not in ("free", "allocated", "reserved", "in_use")
    return device.state_reason if needs_reason else None


def _command_name(row: JobRow) -> str:
    return row.command[0].rpartition("/")[2] if row.command else row.kind


def _short_model(name: str) -> str:
    return name.removeprefix("NVIDIA ")


def _or(value: object, unknown: str) -> str:
    return unknown if value is None else str(value)
