"""`corral alloc-map`: how much of each GPU is allocated, and to whom, one bar per GPU."""

import string
from collections.abc import Mapping, Sequence
from pathlib import Path

from corral.cli.commands import gpus_and_nodes
from corral.cli.screen import (
    clipped,
    painted,
    print_json,
    say,
    width,
    write_lines,
    write_painted,
)
from corral.client import Client, HolderRow, MappedDevice
from corral.core.model.printable import printable
from corral.core.model.units import MILLI_PER_DEVICE, format_memory, format_share
from corral.formatting.device_names import several_nodes, short_model

BAR_CELLS = 20
_FREE = "."
_MANY = "*"
"""The letter of all users beyond the last letter of the alphabet."""


def alloc_map(given: gpus_and_nodes.AllocMapCommand) -> None:
    """Run `corral alloc-map`."""
    if given.scan is not None:
        _show_scan(given.scan, json=given.json)
        return
    with Client() as client:
        devices = client.alloc_map()
    if given.json:
        print_json(devices)
    else:
        write_painted(*map_lines(devices))


def map_lines(devices: Sequence[MappedDevice]) -> list[str]:
    """One line for each device, then one line for each user."""
    letters = _letters(devices)
    several = several_nodes(devices)
    lines: list[str] = []
    for node in dict.fromkeys(device.node for device in devices):
        lines += [painted(node or "?", "bold")] if several else []
        lines += [_device_line(device, letters) for device in devices if device.node == node]
    for user, letter in letters.items():
        own = [job for device in devices for job in device.jobs if job.user == user]
        milli = sum(job.share_milli for job in own)
        jobs = ", ".join(dict.fromkeys(job.job for job in own))
        lines.append(clipped(f"{letter} {user} {format_share(milli)} in {jobs}", width()))
    return lines


def _letters(devices: Sequence[MappedDevice]) -> dict[str, str]:
    users = sorted({job.user for device in devices for job in device.jobs})
    known = string.ascii_uppercase + string.ascii_lowercase
    return {user: known[number] if number < len(known) else _MANY for number, user in enumerate(users)}


def _device_line(device: MappedDevice, letters: Mapping[str, str]) -> str:
    stacked = sorted(device.jobs, key=lambda job: job.user)
    index = "?" if device.index is None else str(device.index)
    amount = f"{device.allocated_milli / MILLI_PER_DEVICE:.2f}"
    name = clipped(short_model(device), 18).ljust(18)
    if device.sliced:
        return f"[{index}] {name} {device.means:<9} only its slices are allocated"
    head = f"[{index}] {name} {device.held_as or device.means:<9} {amount} "
    style = "green" if not stacked else "cyan"
    line = f"{head}|{painted(bar(stacked, letters), style)}|"
    left = width() - len(head) - BAR_CELLS - 3
    return f"{line} {clipped(', '.join(map(_job, stacked)), left)}".rstrip()


def bar(jobs: Sequence[HolderRow], letters: Mapping[str, str]) -> str:
    """The jobs' shares side by side in `BAR_CELLS` cells, the rest free. Each job gets a cell if there is room."""
    cells, allocated_milli = "", 0
    for job in jobs:
        allocated_milli += job.share_milli
        end = min(BAR_CELLS, max(len(cells) + 1, round(allocated_milli * BAR_CELLS / MILLI_PER_DEVICE)))
        cells = cells.ljust(end, letters[job.user])
    return cells.ljust(BAR_CELLS, _FREE)


def _job(job: HolderRow) -> str:
    memory = "" if job.memory_mib is None else f" {format_memory(job.memory_mib)}"
    return f"{job.job} {format_share(job.share_milli)}{memory}"


def _show_scan(root: Path, *, json: bool) -> None:
    from corral.core.sharing.alloc_map import alloc_map_of_files
    from corral.host.sharing.scratch import scan

    found = scan(root, mounts=True)
    for bad in found.bad:
        say(str(bad))
    amounts = alloc_map_of_files(found.files.values())
    if json:
        print_json(amounts)
        return
    for uuid, amount in amounts.items():
        jobs = ", ".join(kernel for kernel, file in found.files.items() if uuid in file.allocated_milli())
        cells = min(BAR_CELLS, round(float(amount) * BAR_CELLS))
        line = f"{printable(uuid)} {amount} |{'#' * cells:{_FREE}<{BAR_CELLS}}| "
        write_lines(line + clipped(jobs, max(8, width() - len(line))))
    if not amounts:
        write_lines("by the files no GPU is allocated")
