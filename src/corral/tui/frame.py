"""The whole display as lines: its head, and one frame of it for `corral top --once`."""

import time
from collections import Counter

from corral.formatting.device_names import several_nodes
from corral.tui.board import Board
from corral.tui.device_lines import device_layout, device_line, device_title
from corral.tui.job_lines import job_layout, job_line, job_title
from corral.tui.ordering import RowChoice, chosen_jobs
from corral.tui.styled_lines import Line, cell, clipped_to

UNDER_WAY = ("STARTING", "RUNNING", "STOPPING")

_FIXED_ROWS = 4
"""Head, two titles, and a line for how many more there are."""


def head_line(board: Board, columns: int, now: float, away: str = "") -> Line:
    """Return the head: the site, free devices, numbers of running and waiting jobs, alerts; or that the server is
    away.
    """
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    if away:
        return [cell(f"{away}  {clock}", columns, "red")]
    server = board.server
    if server.obstacle:
        return [cell(f"nothing starts now: {server.obstacle}", columns, "red")]
    given = [device for device in board.devices.values() if not device.sliced]
    nodes = {device.node for device in given}
    only = next((node for node in nodes if node), server.node or "no node with a GPU")
    here = f"{len(nodes)} nodes" if len(nodes) > 1 else only
    here = f"{server.cluster}: {here}" if server.cluster else here
    free = [device.state for device in given].count("free")
    counts = Counter(job.phase.value for job in board.jobs.values())
    running, waiting = sum(counts[phase] for phase in UNDER_WAY), counts["PENDING"]
    alerts = ", ".join(f"{count} {severity}" for severity, count in server.alerts.items())
    parts = [f"{free} of {len(given)} GPUs free", f"{running} run, {waiting} wait"]
    parts += [f"alerts: {alerts}"] if alerts else []
    left = columns - len(clock) - 1
    # The name of the node is cut to leave room for the figures.
    figures = "  ".join(parts)
    name = clipped_to(here, max(8, left - len(figures) - 2))
    return [cell(f"{name}  {figures}", left, "bold"), (f" {clock}", None)]


def device_rows(rows: int, devices: int) -> int:
    """Return the number of rows for devices: all devices, but never more than about half of the rows."""
    return max(1, min(devices, max(3, (rows - 6) // 2)))


def shown_devices(board: Board, rows: int) -> tuple[str, ...]:
    """Return the UUIDs of the devices in a frame of this many rows."""
    return tuple(board.devices)[: device_rows(rows, len(board.devices))]


def frame_lines(board: Board, columns: int, rows: int, now: float) -> list[Line]:
    """Return one frame of this size. If rows do not fit, a line says how many are left out."""
    several = several_nodes(board.devices.values())
    devices = list(board.devices.values())
    shown = devices[: device_rows(rows, len(devices))]
    layout = device_layout(columns, devices, several)
    lines: list[Line] = [head_line(board, columns, now), [(device_title(layout)[:columns], "bold")]]
    lines += [device_line(device, layout, board.sparks, several, now) for device in shown]
    jobs = chosen_jobs(board.jobs.values(), RowChoice(), now)
    of_jobs = job_layout(columns, jobs)
    lines.append([(job_title(of_jobs)[:columns], "bold")])
    room = max(1, rows - _FIXED_ROWS - len(shown))
    lines += [job_line(job, of_jobs, board.places, now) for job in jobs[:room]]
    left_out = [(len(devices) - len(shown), "GPUs"), (len(jobs) - room, "jobs")]
    if more := ", ".join(f"{count} more {what}" for count, what in left_out if count > 0):
        lines.append([cell(more, columns, "dim")])
    return lines
