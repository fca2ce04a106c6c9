"""Commands that scripts run often, without typer: it takes longer to load than all that they do (decision 77).

What a command does is said once, here or in its module beside this room, and its options once, by typer. `options` is
derived from that declaration, and `words` reads only what both read alike: all else is left to typer, with its help,
its errors and its completion.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def run(words: Sequence[str]) -> int | None:
    """Run the command that `words` are; its exit code. None where that is left to typer, and nothing was done yet."""
    if list(words) in (["version"], ["--version"], ["-V"]):
        from corral.cli.direct.print_version import print_version

        return print_version()
    from corral.cli.direct.words import read

    command = read(words)
    return None if command is None else _run(*command)


def _run(name: str, given: dict[str, Any]) -> int | None:
    match name:
        case "ps":
            from corral.cli.direct.list_jobs import list_jobs

            return list_jobs(**given)
        case "status":
            from corral.cli.direct.list_devices import show_status

            return show_status(**given)
        case "devices":
            from corral.cli.direct.list_devices import list_devices

            return list_devices(**given)
        case "nodes":
            from corral.cli.direct.list_nodes import list_nodes

            return list_nodes(**given)
        case "queues":
            from corral.cli.direct.list_queues import list_queues

            return list_queues(**given)
        case "show":
            from corral.cli.direct.show_job import show_job

            return show_job(**given)
        case "why":
            from corral.cli.direct.explain_job import explain_job

            return explain_job(**given)
        case "wait":
            from corral.cli.direct.wait_for_jobs import wait_for_jobs

            return wait_for_jobs(**given)
        case "logs":
            from corral.cli.direct.print_log import print_log

            return print_log(**given)
        case "submit":
            from corral.cli.direct.submit_command import submit_command

            return submit_command(**given)
        case "cancel" | "hold" | "release" | "requeue":
            from corral.cli.direct.change_jobs import change_jobs

            return change_jobs(name, **given)
    return None
