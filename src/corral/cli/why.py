"""`corral why`: why a job waits, and what would start it now."""

from typing import Annotated

import typer

from corral.cli.direct.explain_job import explain_job
from corral.cli.screen import command_group, example

app = command_group()


@app.command(epilog=example("corral why 17"))
def why(
    job_id: Annotated[str, typer.Argument(metavar="ID|NAME", help="Job id, or a name: of these the newest.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain why a job waits, and what would start it now.

    Also shows its place in the queue, and for a job that has started, how long it waited for which reason. For one that
    failed, what the end of its log says about it and how to fix it.
    """
    raise typer.Exit(explain_job(job_id=job_id, json=json))
