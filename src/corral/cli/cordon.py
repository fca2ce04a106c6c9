"""`corral cordon` and `corral uncordon`: keep jobs from starting on a GPU or a node, and let them again."""

from typing import Annotated

import typer

from corral.cli.nodes import node_line
from corral.cli.screen import command_group, example, write_lines
from corral.client import Client, DeviceRow

Target = Annotated[str, typer.Argument(metavar="GPU|NODE", help="A GPU (UUID, index, NODE:INDEX) or a node's name.")]

app = command_group()


@app.command(epilog=example('corral cordon 3 --reason "fan is loud"'))
def cordon(
    target: Target,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Shown to everyone who looks at it.")] = "",
) -> None:
    """Keep new jobs from starting on a GPU or a node. Running jobs go on."""
    with Client() as client:
        if _is_node(client, target):
            write_lines(node_line(client.nodes.cordon(target, reason)))
            return
        for row in client.devices.cordon(target, reason):
            kept = not reason and row.state == "cordoned" and row.state_reason
            words = f"; it keeps the reason given before: {row.state_reason}" if kept else _why(row)
            write_lines(f"GPU {row.index} is {row.state}{words}")


@app.command(epilog=example("corral uncordon 3"))
def uncordon(target: Target) -> None:
    """Let jobs start on a GPU or a node again."""
    with Client() as client:
        if _is_node(client, target):
            write_lines(node_line(client.nodes.uncordon(target)))
            return
        for row in client.devices.uncordon(target):
            jobs = list(dict.fromkeys(holder.job for holder in row.holders))
            used = f", and job{'s' if len(jobs) > 1 else ''} {', '.join(jobs)} still use{'s' * (len(jobs) == 1)} it"
            write_lines(f"GPU {row.index} is no longer cordoned: it is {row.state}{_why(row)}{used if jobs else ''}")


def _is_node(client: Client, target: str) -> bool:
    return not target.isdecimal() and any(row.name == target for row in client.nodes.list())


def _why(row: DeviceRow) -> str:
    return f" ({row.state_reason})" if row.state_reason else ""
