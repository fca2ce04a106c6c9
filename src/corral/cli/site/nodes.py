"""`corral drain`: empty a node."""

from corral.cli.commands import gpus_and_nodes
from corral.cli.direct.list_nodes import node_line
from corral.cli.screen import write_lines
from corral.client import Client
from corral.core.model.units import parse_duration_s


def drain(given: gpus_and_nodes.DrainCommand) -> None:
    """Run `corral drain`."""
    deadline_s = (
        None
        if given.deadline is None
        else 0.0
        if given.deadline == "0s"
        else parse_duration_s(given.deadline, field="--deadline")
    )
    with Client() as client:
        write_lines(node_line(client.nodes.drain(given.node, given.reason, deadline_s=deadline_s)))
