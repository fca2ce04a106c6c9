"""`corral mig`: creates and deletes MIG slices. Shows what would be done unless --apply is given."""

from typing import Annotated

import typer

from corral.cli.screen import example, print_json, write_lines
from corral.client import Client, SlicePlan

Device = Annotated[str, typer.Argument(metavar="GPU", help="Index or UUID.")]
Apply = Annotated[bool, typer.Option("--apply", help="Do it. Without this flag it is only shown.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = typer.Typer(
    name="mig",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="Create and delete MIG slices. For administrators.",
    epilog=example("corral mig cut 1 1g.10gb --count 2 --apply"),
)
app.callback()(lambda: None)


@app.command(epilog=example("corral mig cut 1 1g.10gb --count 2 --apply"))
def cut(
    device: Device,
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="Profile of the slices: 1g.10gb.")],
    count: Annotated[int, typer.Option("--count", min=1, metavar="N", help="Number of slices.")] = 1,
    apply: Apply = False,
    json: AsJson = False,
) -> None:
    """Create MIG slices on a GPU that is in MIG mode."""
    with Client() as client:
        _show(client.devices.cut(device, profile, count, apply=apply), json=json)


@app.command("give-up", epilog=example("corral mig give-up 1 --apply"))
def give_up(device: Device, apply: Apply = False, json: AsJson = False) -> None:
    """Delete all MIG slices of a GPU. None may be in use by a job."""
    with Client() as client:
        _show(client.devices.give_up(device, apply=apply), json=json)


def _show(plan: SlicePlan, *, json: bool) -> None:
    if json:
        print_json(plan)
        return
    lines = [plan.purpose, *plan.commands, "done" if plan.applied else "nothing was done; add --apply to do it"]
    write_lines(*lines)
