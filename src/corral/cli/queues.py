"""`corral queues`: quotas, what is used of them, and what is left to whoever asks."""

from typing import Annotated

import typer

from corral.cli.direct.list_queues import list_queues
from corral.cli.screen import command_group, example

app = command_group()


@app.command(epilog=example("corral queues --project vision"))
def queues(
    project: Annotated[
        str, typer.Option("--project", metavar="PROJECT", help="The project of the job that you have in mind.")
    ] = "default",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List queues: policies, quotas, use, and what is left to you.

    Quotas and use are in GPUs; after a + is what a queue may borrow. A queue's use and waiting jobs count those of the
    queues below it. LEFT is what one more job of yours may have there by all quotas: of the queue and those above it,
    with what can be borrowed now, yours and the project's. Whether so many GPUs are free, `corral status` shows. A
    queue that was removed is listed while jobs are in it.
    """
    raise typer.Exit(list_queues(project=project, json=json))
