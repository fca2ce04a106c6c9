"""The tables of `corral status` and `devices`: GPUs, the jobs on them, and their problems."""

from __future__ import annotations

import os
from functools import partial

from corral.cli.screen import clipped, clipped_line, fitted, painted, room, width, wrapped
from corral.cli.tables.text_table import TextTable
from corral.core.model.printable import printable
from corral.core.model.units import format_memory
from corral.formatting.device_names import device_called, several_nodes, short_model
from corral.formatting.device_words import STATE_STYLES, health_words, holder_words, part_words
from corral.formatting.times import clock_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from corral.client import Address, DeviceRow, ServerInfo

    Gauge = Callable[[DeviceRow], str]
    """Makes the line of a device."""


def elsewhere(address: Address) -> str | None:
    """The place of the server, if it is not the one in ~/.corral; else None."""
    if address.url:
        return address.url
    root = str(address.home)
    return None if root == os.path.expanduser("~/.corral") else root


def status_lines(server: ServerInfo, devices: Sequence[DeviceRow], *, bars: bool = False) -> list[str]:
    """The table of `status`: one line per GPU, like gpustat's or with bars, and the processes on it."""
    # The server's own machine may have no driver, and the GPUs be on joined hosts.
    source = "" if server.source == "none" else f"source {server.source or 'unknown'}"
    driver = f"driver {server.driver_version}" if server.driver_version else source
    kind = "mock devices" if server.mock else driver
    several = several_nodes(devices)
    only = next((device.node for device in devices if device.node), server.node or "no node with a GPU")
    here = f"{len({device.node for device in devices})} nodes" if several else only
    named = f"{printable(server.cluster)}: {here}" if server.cluster else here
    lines = [painted(f"{named}  {_free_of(devices)}  {kind}".rstrip(), "bold")]
    if server.obstacle is not None:
        obstacle = printable(f"nothing starts now: {server.obstacle}")
        lines += [painted(line, "red") for line in wrapped(obstacle, room() or len(obstacle))]
    if server.power_budget_w is not None and server.power_counted_w is not None:
        counted = f"{server.power_counted_w:.0f} of {server.power_budget_w} W"
        lines.append(fitted(f"power budget: the limits of GPUs with jobs add up to {counted}"))
    if server.alerts:
        counts = ", ".join(f"{count} {severity}" for severity, count in server.alerts.items())
        style = "red" if "critical" in server.alerts else "yellow"
        lines.append(painted(fitted(printable(f"alerts: {counts} (corral alerts)")), style))
    longest = max((len(short_model(device)) for device in devices), default=0)
    gauge: Gauge = partial(_gauge_line, name_width=min(19, longest))
    if bars:
        gauge = _bars_of(devices)
    if not several:
        lines += [clipped_line(UNMETERED)] if _unmetered(devices) else []
        return lines + [line for device in devices for line in _device_status(device, gauge, None)]
    for node in dict.fromkeys(device.node for device in devices):
        lines += _node_status(node or "?", [device for device in devices if device.node == node], gauge)
    return lines


def _free_of(devices: Sequence[DeviceRow]) -> str:
    given = [device for device in devices if not device.sliced]
    return f"{sum(device.state == 'free' for device in given)} of {len(given)} GPUs free"


UNMETERED = "these GPUs have no readings: only their jobs are known, not use and memory"


def _unmetered(devices: Sequence[DeviceRow]) -> bool:
    return bool(devices) and not any(device.metered for device in devices)


def _node_status(node: str, devices: Sequence[DeviceRow], gauge: Gauge) -> list[str]:
    """The lines of one node. A problem that all of its devices share is shown once."""
    notes = {_state_note(device) for device in devices}
    shared = notes.pop() if len(notes) == 1 and len(devices) > 1 else None
    lines = [painted(f"{node}  {_free_of(devices)}", "bold")]
    lines += [clipped_line("  " + shared)] if shared else []
    lines += [clipped_line("  " + UNMETERED)] if _unmetered(devices) else []
    return lines + [line for device in devices for line in _device_status(device, gauge, shared)]


def _device_status(device: DeviceRow, gauge: Gauge, said: str | None) -> list[str]:
    """The line of a device, and its notes except the one in `said`."""
    notes = [note for note in _notes(device) if note != said]
    return [gauge(device), *(clipped_line("      " + note) for note in notes)]


def device_lines(rows: Sequence[DeviceRow]) -> list[str]:
    """The table of `devices`."""
    means = [row.mig_profile or row.means or "?" for row in rows]
    # If all devices are shared in the same way, one line below the table says it. This leaves more room for the models.
    mixed, several = len(set(means)) > 1, several_nodes(rows)
    titles = ("GPU", "UUID", "MEMORY", "CC", *(["SHARED"] if mixed else []), "MODEL")
    table = TextTable(titles, limits={"UUID": 40}, numeric=("GPU", "MEMORY"))
    for row, shared in zip(rows, means, strict=True):
        cells = (device_called(row, several), row.uuid, format_memory(row.memory_total_mib))
        table.add(*cells, row.compute_capability or "?", *([shared] if mixed else []), row.name.removeprefix("NVIDIA "))
    below = [] if mixed or not rows else [f"shared: {means[0]}"]
    below += [clipped_line(f"GPU {device_called(row, several)} is {state_in_words(row)}") for row in rows if ill(row)]
    return table.lines() + below


def ill(device: DeviceRow) -> bool:
    """Whether a fault of the device itself keeps jobs from starting on it, or some of them."""
    return device.state in ("unreadable", "unhealthy", "quarantined", "probation", "suspect")


def state_in_words(device: DeviceRow) -> str:
    """The device's problem, its start and its reason: "unhealthy since 14:20: it is at 97°C, and ..."."""
    since = "" if device.state_since is None else f" since {clock_time(device.state_since)}"
    return f"{device.state}{since}" + (f": {device.state_reason}" if device.state_reason else "")


def _gauge_line(device: DeviceRow, name_width: int) -> str:
    name = clipped(short_model(device), name_width).ljust(name_width)
    heat = f"{_or(device.temperature_c, '?'):>3}'C"
    use = f"{_or(device.utilization_pct, '?'):>3} %"
    memory = f"{_or(device.memory_used_mib, '?'):>5} / {_or(device.memory_total_mib, '?'):>5} MB"
    state = painted(device.state, STATE_STYLES.get(device.state, "bold"))
    who = _holders(device)
    line = f"[{_or(device.index, '?')}] {name} | {heat}, {use} | {memory} | "
    return line + state + (f" {fitted(who, len(line) + len(device.state) + 1)}" if who else "")


def _bars_of(devices: Sequence[DeviceRow]) -> Gauge:
    from corral.cli.tables.gauges import bars_line, layout_for

    layout = layout_for(width(), devices)
    return lambda device: bars_line(device, _holders(device), layout, STATE_STYLES.get(device.state, "bold"))


def _holders(device: DeviceRow) -> str:
    """The jobs that have the device, with their users and shares."""
    return " ".join(map(holder_words, device.holders))


def _notes(device: DeviceRow) -> list[str]:
    """The device's problem, and its users other than the jobs that have it."""
    state = _state_note(device)
    notes = [note for note in (state, health_words(device)) if note]
    holders = [holder.job for holder in device.holders]
    if device.pod is not None:
        notes.append(f"{device.pod}" + (f" since {clock_time(device.since)}" if device.since else ""))
    notes += map(part_words, device.parts)
    for process in device.processes:
        if process.job not in holders:
            since = f" since {clock_time(device.since)}" if device.since else ""
            memory = "" if process.memory_mib is None else f"({process.memory_mib}M)"
            job = "" if process.job is None else f" of job {process.job}"
            place = "" if process.container is None else f" in {process.container}"
            who = f"{process.user or '?'}/{process.pid}{memory}"
            notes.append(f"{who}{place}{job}{since}: {process.command or '?'}")
    return notes


def _state_note(device: DeviceRow) -> str | None:
    """Why the device takes no job, if that is known."""
    if ill(device):
        return state_in_words(device)
    needs_reason = device.state_reason and device.state not in ("free", "allocated", "reserved", "in_use")
    return device.state_reason if needs_reason else None


def _or(value: object, unknown: str) -> str:
    return unknown if value is None else str(value)
