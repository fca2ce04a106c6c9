"""`corral wait`: waits until jobs have ended."""

from typing import Annotated

import typer

from corral.cli.endings import ending_of
from corral.cli.screen import command_group, example, say
from corral.cli.wait_progress import WaitProgress
from corral.client import Client, WaitTimedOut
from corral.model.units import parse_duration_s

TIMED_OUT = 124

app = command_group()


@app.command(epilog=example("corral wait 17 18 --timeout 2h"))
def wait(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Job ids. An array's id stands for all its jobs.")],
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="Stop waiting after this time: 30s, 2h.")
    ] = None,
) -> None:
    """Wait until jobs have ended. On a terminal, a line shows how many have.

    Exits with 0 if all succeeded, 1 if one did not, 124 if --timeout passed first.
    """
    # A bare number is seconds here, as for timeout(1); it is a job's time limit that has to say which it means.
    words = f"{timeout}s" if timeout is not None and timeout.isdecimal() else timeout
    timeout_s = None if words is None else parse_duration_s(words, field="--timeout")
    with Client() as client:
        try:
            with WaitProgress(ids):
                rows = client.wait(ids, timeout_s)
        except WaitTimedOut as late:
            say(str(late))
            raise typer.Exit(TIMED_OUT) from late
    failed = [row for row in rows if not row.succeeded]
    for row in failed:
        say(ending_of(row))
    raise typer.Exit(1 if failed else 0)
