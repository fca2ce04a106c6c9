"""`corral wait`: waits until jobs have ended."""

from typing import Annotated

import typer

from corral.cli.direct.wait_for_jobs import wait_for_jobs
from corral.cli.screen import command_group, example

app = command_group()


@app.command(epilog=example("corral wait 17 18 --timeout 2h"))
def wait(
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...", help="Job ids. An array's id stands for all its jobs, '17_[3-9]' for some of them."
        ),
    ],
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="Stop waiting after this time: 30s, 2h.")
    ] = None,
) -> None:
    """Wait until jobs have ended. On a terminal, a line shows how many have.

    Exits with 0 if all succeeded, 1 if one did not, 124 if --timeout passed first.
    """
    raise typer.Exit(wait_for_jobs(ids=ids, timeout=timeout))
