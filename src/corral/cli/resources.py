"""`corral resources`: the resource names of other systems that jobs may use."""

from collections.abc import Sequence
from typing import Annotated

import typer

from corral.cli import screen
from corral.cli.screen import command_group, example, print_json, wrapped, write_painted
from corral.cli.text_table import TextTable
from corral.client import Client, ResourceNameRow
from corral.client.language import in_own_language
from corral.model.printable import printable

app = command_group()


@app.command(epilog=example("corral resources", "corral submit --resource cuda.shares=0.5 -- ./job"))
def resources(*, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the resource names of other systems that jobs may use.

    A job uses those of one group by --resource NAME=AMOUNT. DEFAULT is the amount of a name that is given without one,
    or that is needed and left out; * marks a name that is needed beside every other of its group. Descriptions are in
    the language of your locale where the site has them.
    """
    with Client() as client:
        rows = client.resource_names()
    if json:
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
