"""`corral nodes` and `corral drain`: the nodes of the cluster, and emptying one."""

from collections.abc import Sequence
from typing import Annotated

import typer

from corral.cli.screen import command_group, example, print_json, write_lines, write_painted
from corral.cli.text_table import TextTable
from corral.client import Client, NodeRow
from corral.formatting.times import clock_time
from corral.model.device import VERSION_LABELS
from corral.model.units import format_memory, parse_duration_s

STATE_STYLES = {"ready": "green", "silent": "red", "gone": "red", "draining": "yellow", "cordoned": "magenta"}

app = command_group()


@app.command(epilog=example("corral nodes --json"))
def nodes(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the nodes, and whether jobs may start on them."""
    with Client() as client:
        rows = client.nodes.list()
    if json:
        print_json(rows)
    else:
        write_painted(*node_lines(rows))


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


def node_line(row: NodeRow) -> str:
    """How a node stands, as a sentence without its full stop."""
    return f"node {row.name} is {row.state}" + (f" ({row.reason})" if row.reason else "")


def node_lines(rows: Sequence[NodeRow]) -> list[str]:
    """The table of `nodes`."""
    titles = ("NODE", "STATE", "GPUS", "CPUS", "MEMORY", "SEEN", "WHY, LABELS")
    table = TextTable(titles, limits={"NODE": 20}, numeric=("GPUS", "CPUS", "MEMORY"))
    for row in rows:
        table.add(
            row.name,
            row.state,
            str(row.devices),
            "?" if row.cpus is None else f"{row.cpus:g}",
            format_memory(row.memory_mib),
            "never" if row.last_seen_at is None else clock_time(row.last_seen_at),
            row.reason or _labels_of_the_site(row),
            style=STATE_STYLES.get(row.state),
        )
    return table.lines(paint="STATE")


def _labels_of_the_site(row: NodeRow) -> str:
    """Labels that the site has given; those that every node has would fill the table."""
    return " ".join(f"{key}={value}" for key, value in sorted(row.labels.items()) if key not in VERSION_LABELS)
