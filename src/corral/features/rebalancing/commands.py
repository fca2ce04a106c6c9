"""The command that moves running jobs."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag


class RebalanceCommand(
    DeclaredCommand,
    runs="corral.features.rebalancing.run_commands.rebalance",
    examples=("corral rebalance --dry-run", "corral rebalance"),
):
    """Move running jobs, to make room for others or to empty a node.

    Only jobs submitted with --movable are moved, an hour after their start or later. A moved job gets its checkpoint
    signal, stops, and starts on other GPUs. Nothing moves unless all moved jobs find another place at once. For ten
    minutes the scheduler decides again and again. With `rebalance: nightly` in the settings it does so from 3:00 to
    4:00 each night.
    """

    dry_run: bool = flag("--dry-run", help="Show the moves and their cost; change nothing.")
    json: bool = flag("--json", help="Print JSON.")
