"""`corral mig`: create and delete MIG slices. Without --apply, it only shows the plan."""

from corral.cli.commands import gpus_and_nodes
from corral.cli.screen import print_json, write_lines
from corral.client import Client, SlicePlan


def cut(given: gpus_and_nodes.MigCutCommand) -> None:
    """Run `corral mig cut`."""
    with Client() as client:
        _show(client.devices.cut(given.device, given.profile, given.count, apply=given.apply), json=given.json)


def give_up(given: gpus_and_nodes.MigGiveUpCommand) -> None:
    """Run `corral mig give-up`."""
    with Client() as client:
        _show(client.devices.give_up(given.device, apply=given.apply), json=given.json)


def _show(plan: SlicePlan, *, json: bool) -> None:
    if json:
        print_json(plan)
        return
    lines = [plan.purpose, *plan.commands, "done" if plan.applied else "nothing was done; add --apply to do it"]
    write_lines(*lines)
