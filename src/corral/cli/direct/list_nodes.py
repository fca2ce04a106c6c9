"""`corral nodes`: the nodes of the cluster, and whether jobs may start on them."""

from __future__ import annotations

from corral.cli.direct.rows import rows_of
from corral.cli.screen import print_json, write_painted
from corral.cli.tables.text_table import TextTable
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport
from corral.core.model.devices.version_labels import VERSION_LABELS
from corral.core.model.units import format_memory
from corral.formatting.times import clock_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.cli.commands import gpus_and_nodes
    from corral.client import NodeRow

STATE_STYLES = {"ready": "green", "silent": "red", "gone": "red", "draining": "yellow", "cordoned": "magenta"}


def list_nodes(given: gpus_and_nodes.NodesCommand) -> int:
    """Print the nodes. Return the exit code."""
    answer = Transport(find_address()).get("/nodes")["nodes"]
    if given.json:
        print_json(answer)
    else:
        write_painted(*node_lines(rows_of("NodeRow", answer)))
    return 0


def node_line(row: NodeRow) -> str:
    """The state of a node, as a sentence without its full stop."""
    return f"node {row.name} is {row.state}" + (f" ({row.reason})" if row.reason else "")


def node_lines(rows: Sequence[NodeRow]) -> list[str]:
    """The table of `nodes`."""
    reached = any(row.via is not None for row in rows)
    titles = ("NODE", "STATE", "GPUS", "CPUS", "MEMORY", "SEEN", *(["VIA"] if reached else []), "WHY, LABELS")
    table = TextTable(titles, limits={"NODE": 20}, numeric=("GPUS", "CPUS", "MEMORY"))
    for row in rows:
        table.add(
            row.name,
            row.state,
            str(row.devices),
            "?" if row.cpus is None else f"{row.cpus:g}",
            format_memory(row.memory_mib),
            "never" if row.last_seen_at is None else clock_time(row.last_seen_at),
            *([row.via or "this machine"] if reached else []),
            row.reason or _labels_of_the_site(row),
            style=STATE_STYLES.get(row.state),
        )
    return table.lines(paint="STATE")


def _labels_of_the_site(row: NodeRow) -> str:
    """The labels that the site has given. Labels that every node has would fill the table."""
    return " ".join(f"{key}={value}" for key, value in sorted(row.labels.items()) if key not in VERSION_LABELS)
