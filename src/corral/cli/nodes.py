"""`corral nodes` and `corral drain`: the nodes of the cluster, and emptying one."""

from typing import Annotated

import typer

from corral.cli.direct.list_nodes import list_nodes, node_line
from corral.cli.screen import command_group, example, write_lines
from corral.client import Client
from corral.model.units import parse_duration_s

app = command_group()


@app.command(epilog=example("corral nodes --json"))
def nodes(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the nodes, and whether jobs may start on them."""
    raise typer.Exit(list_nodes(json=json))


@app.command(epilog=example('corral drain gpu-07 --deadline 30m --reason "kernel update"'))
def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")],
    deadline: Annotated[
        str | None,
        typer.Option("--deadline", metavar="TIME", help="Requeue what still runs after this time: 30m. Else it ends."),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Shown to everyone who looks at the node.")
    ] = "",
) -> None:
    """Empty a node: start nothing more on it. `corral uncordon` gives it back."""
    deadline_s = (
        None if deadline is None else 0.0 if deadline == "0s" else parse_duration_s(deadline, field="--deadline")
    )
    with Client() as client:
        write_lines(node_line(client.nodes.drain(node, reason, deadline_s=deadline_s)))
