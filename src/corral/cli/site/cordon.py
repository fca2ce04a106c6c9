"""`corral cordon`, `uncordon` and `drain`: keep jobs from starting on a GPU or a node, allow it again, empty a node."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from corral.cli.commands import gpus_and_nodes
from corral.cli.direct.list_nodes import node_line
from corral.cli.screen import write_lines
from corral.client import Client, DeviceRow
from corral.core.model.errors import NotFound
from corral.core.model.units import parse_duration_s
from corral.formatting.device_names import device_called, several_nodes


def cordon(given: gpus_and_nodes.CordonCommand) -> None:
    """Run `corral cordon`."""
    with Client() as client:
        nodes = _nodes(client)
        if given.target in nodes:
            write_lines(node_line(client.nodes.cordon(given.target, given.reason)))
            return
        with _naming_nodes(given.target, nodes):
            rows = client.devices.cordon(given.target, given.reason)
        several = several_nodes(client.devices.list())
    for row in rows:
        kept = not given.reason and row.state == "cordoned" and row.state_reason
        words = f"; it keeps the reason given before: {row.state_reason}" if kept else _why(row)
        write_lines(f"GPU {device_called(row, several)} is {row.state}{words}")


def uncordon(given: gpus_and_nodes.UncordonCommand) -> None:
    """Run `corral uncordon`."""
    with Client() as client:
        nodes = _nodes(client)
        if given.target in nodes:
            write_lines(node_line(client.nodes.uncordon(given.target)))
            return
        with _naming_nodes(given.target, nodes):
            rows = client.devices.uncordon(given.target)
        several = several_nodes(client.devices.list())
    for row in rows:
        called = f"GPU {device_called(row, several)}"
        jobs = list(dict.fromkeys(holder.job for holder in row.holders))
        used = f", and job{'s' if len(jobs) > 1 else ''} {', '.join(jobs)} still use{'s' * (len(jobs) == 1)} it"
        write_lines(f"{called} is no longer cordoned: it is {row.state}{_why(row)}{used if jobs else ''}")


def _nodes(client: Client) -> list[str]:
    """The node names that cannot be read as a GPU's index."""
    return [row.name for row in client.nodes.list() if not row.name.isdecimal()]


@contextmanager
def _naming_nodes(target: str, nodes: Sequence[str]) -> Iterator[None]:
    """Let errors about an unknown GPU name nodes, too: the target may be a misspelled node."""
    try:
        yield
    except NotFound as error:
        name = target.partition(":")[0]
        if name.isdecimal() or name in nodes:
            raise
        close = get_close_matches(name, nodes, n=1)
        hint = f"did you mean node {close[0]}?" if close else "`corral nodes` and `corral devices` list them"
        raise NotFound(f"there is no GPU or node {target}; {hint}", field=error.field) from None


def _why(row: DeviceRow) -> str:
    return f" ({row.state_reason})" if row.state_reason else ""


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
