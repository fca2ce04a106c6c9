"""`corral status` and `devices`: tables of GPUs."""

from typing import Annotated

import typer

from corral.cli.direct.list_devices import list_devices, show_status
from corral.cli.screen import command_group, example

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = command_group()


@app.command(epilog=example("corral status"))
def status(
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it anew each second, with power and bars, until q or Ctrl-C.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show each GPU, its state, and who uses it.

    One line per GPU: temperature, utilization, memory, state, and the jobs that have it. Below it, processes that
    Corral did not start.
    """
    raise typer.Exit(show_status(watch=watch, json=json))


@app.command(epilog=example("corral devices --json"))
def devices(json: AsJson = False) -> None:
    """List all GPUs with their UUIDs and models."""
    raise typer.Exit(list_devices(json=json))
