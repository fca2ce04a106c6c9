"""`corral rebalance`: moves of running jobs, and their cost."""

from collections.abc import Iterator

from corral.cli.screen import print_json, write_painted
from corral.cli.tables.text_table import TextTable
from corral.client import Client
from corral.core.model.units import count_of
from corral.features.rebalancing import commands
from corral.features.rebalancing.answers import MoveRow, Rebalance


def rebalance(given: commands.RebalanceCommand) -> None:
    """Run `corral rebalance`."""
    with Client() as client:
        found = client.rebalance(dry_run=given.dry_run)
    if given.json:
        print_json(found)
    else:
        write_painted(*lines_of(found, dry_run=given.dry_run))


def lines_of(found: Rebalance, *, dry_run: bool) -> Iterator[str]:
    """The moves as a table, with what they bring and cost."""
    if not found.moves:
        yield "No job can be moved so that another starts or a node becomes empty."
        yield "Only jobs submitted with --movable move, an hour after their start or later."
        return
    table = TextTable(("JOB", "USER", "LEAVES", "LOSES", "WHY"))
    for one in found.moves:
        table.add(one.job, one.user, ",".join(one.nodes), _cost(one), one.reason)
    yield from table.lines()
    lost = sum(one.lost_gpu_hours for one in found.moves)
    yield ""
    gained = [f"{count_of(len(found.starts), 'waiting job')} would start"] if found.starts else []
    gained += [f"{count_of(len(found.emptied), 'node')} would be empty"] if found.emptied else []
    moved = count_of(len({one.job for one in found.moves}), "job")
    yield f"{' and '.join(gained) or 'Nothing is gained'}: {moved} would move and lose {lost:.1f} GPU-hours."
    if not dry_run:
        yield "The scheduler moves jobs for the next 10 minutes."


def _cost(one: MoveRow) -> str:
    return "saves its work" if one.saves else f"{one.lost_gpu_hours:.1f} GPU-h"
