"""`corral cordon` and `corral uncordon`: keeps jobs from starting on a GPU, and lets them again."""

from typing import Annotated

import typer

from corral.cli.screen import command_group, example, write_lines
from corral.client import Client, DeviceRow

Device = Annotated[str, typer.Argument(metavar="GPU", help="Index or UUID.")]

app = command_group()


@app.command(epilog=example('corral cordon 3 --reason "fan is loud"'))
def cordon(
    device: Device,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Shown to everyone who looks at the GPU.")
    ] = "",
) -> None:
    """Keep new jobs from starting on a GPU. Running jobs go on."""
    with Client() as client:
        for row in client.devices.cordon(device, reason):
            kept = not reason and row.state == "cordoned" and row.state_reason
            words = f"; it keeps the reason given before: {row.state_reason}" if kept else _why(row)
            write_lines(f"GPU {row.index} is {row.state}{words}")


@app.command(epilog=example("corral uncordon 3"))
def uncordon(device: Device) -> None:
    """Let jobs start on a GPU again."""
    with Client() as client:
        for row in client.devices.uncordon(device):
            jobs = list(dict.fromkeys(holder.job for holder in row.holders))
            used = f", and job{'s' if len(jobs) > 1 else ''} {', '.join(jobs)} still use{'s' * (len(jobs) == 1)} it"
            write_lines(f"GPU {row.index} is no longer cordoned: it is {row.state}{_why(row)}{used if jobs else ''}")


def _why(row: DeviceRow) -> str:
    return f" ({row.state_reason})" if row.state_reason else ""
