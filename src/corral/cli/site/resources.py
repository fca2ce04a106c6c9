"""`corral resources`: the resource names of other systems that jobs may use."""

from collections.abc import Sequence

from corral.cli import screen
from corral.cli.commands import gpus_and_nodes
from corral.cli.screen import print_json, wrapped, write_painted
from corral.cli.tables.text_table import TextTable
from corral.client import Client, ResourceNameRow
from corral.client.language import in_own_language
from corral.core.model.printable import printable


def resources(given: gpus_and_nodes.ResourcesCommand) -> None:
    """Run `corral resources`."""
    with Client() as client:
        rows = client.resource_names()
    if given.json:
        print_json(rows)
    else:
        write_painted(*resource_lines(rows))


def resource_lines(rows: Sequence[ResourceNameRow]) -> list[str]:
    """A table of the names, each followed by its description."""
    table = TextTable(("NAME", "GROUP", "DEFAULT"), numeric=("DEFAULT",))
    for row in rows:
        table.add(row.name, row.group, f"{row.default or '-'}{'*' if row.required else ''}")
    title, *lines = table.lines()
    described = [_description(row) for row in rows]
    return [title, *(line for name, below in zip(lines, described, strict=True) for line in (name, *below))]


def _description(row: ResourceNameRow) -> list[str]:
    described = in_own_language(row.descriptions)
    if described is None:
        return []
    columns = screen.room()
    shown = printable(described)
    return [f"    {line}" for line in ([shown] if columns is None else wrapped(shown, columns - 4))]
