"""`corral logs`: the output of a job."""

from typing import Annotated

import typer

from corral.cli.direct.print_log import print_log
from corral.cli.screen import command_group, example

app = command_group()


@app.command(epilog=example("corral logs -f 17", "corral logs -n 20 17"))
def logs(
    job_id: Annotated[str, typer.Argument(metavar="ID|NAME", help="Job id, or a name: of these the newest.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the job has ended.")] = False,
    rank: Annotated[
        str, typer.Option("--rank", metavar="N|all", help="Which member of a gang; all puts its rank before each line.")
    ] = "0",
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", metavar="N", min=0, help="Begin at the last N lines (of each rank).")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="What was written since: 10m, 14:05, 2026-10-01."),
    ] = None,
) -> None:
    """Print the output of a job.

    Standard output and standard error are in one log, in the order in which they were written. Lines that begin with
    "corral: " are Corral's own. A job that waits has no log yet: why it waits is said on standard error.

    Lines have no times. With --since, up to some seconds more are shown than were asked for, and never less.
    """
    raise typer.Exit(print_log(job_id=job_id, follow=follow, rank=rank, tail=tail, since=since))
