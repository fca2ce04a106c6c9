"""Setting devices apart: cordon, uncordon."""

from collections.abc import Iterable
from typing import Annotated

import typer

from corral.cli.screen import command_group, example, write_lines
from corral.client import Client, DeviceRow

Device = Annotated[str, typer.Argument(metavar="GPU", help="Index or UUID.")]

app = command_group()


@app.command(epilog=example('corral cordon 3 --reason "fan is loud"'))
def cordon(
    device: Device,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for those who wonder.")] = "",
) -> None:
    """Start nothing more on a GPU. What runs there goes on."""
    with Client() as client:
        _show(client.devices.cordon(device, reason))


@app.command(epilog=example("corral uncordon 3"))
def uncordon(device: Device) -> None:
    """Let jobs start on a GPU again."""
    with Client() as client:
        _show(client.devices.uncordon(device))


def _show(devices: Iterable[DeviceRow]) -> None:
    for device in devices:
        why = f" ({device.state_reason})" if device.state_reason else ""
        write_lines(f"GPU {device.index} is {device.state}{why}")
