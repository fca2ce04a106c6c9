"""`corral show`: everything about one job."""

from typing import Annotated

import typer

from corral.cli.direct.show_job import show_job
from corral.cli.screen import command_group, example

app = command_group()


@app.command(epilog=example("corral show 17", "corral show 17 --json"))
def show(
    job_id: Annotated[
        str, typer.Argument(metavar="ID|NAME", help="Id of a job or an array, or a name: of these the newest.")
    ],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show everything about a job.

    Its command and request, the GPUs that it has or had, its members, times and attempts, why it waits or how it ended,
    and where its log is. Of an array, its elements in short.
    """
    raise typer.Exit(show_job(job_id=job_id, json=json))
