"""`corral update`: change jobs that have not ended."""

from typing import Annotated

import typer

from corral.cli.screen import command_group, complain_of, example, exit_code_of, write_lines
from corral.client import Client
from corral.model.errors import Conflict, Refused
from corral.model.units import parse_time_limit_s

app = command_group()


@app.command(epilog=example("corral update 17 --priority 8 --time 4h"))
def update(
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...", help="Job ids. An array's id stands for all its jobs, '17_[3-9]' for some of them."
        ),
    ],
    priority: Annotated[
        int | None, typer.Option("--priority", metavar="N", help="Lower numbers run first.", show_default=False)
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="TIME", help="Time limit, from the start of the job: 30m, 2h.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="Queue; of waiting jobs only.")] = None,
) -> None:
    """Change jobs that wait or run: priority, time, name, queue.

    Of each job all that is given is changed, or nothing. A waiting job keeps its time of submission, and its time limit
    may be lengthened up to what the site allows. That of a running job may only be shortened, and ends it at once if it
    has run longer; administrators may also lengthen it.
    """
    if priority is None and time is None and name is None and queue is None:
        raise Refused("nothing to change; give at least one of --priority, --time, --name and --queue")
    time_limit_s = None if time is None else parse_time_limit_s(time, field="--time")
    codes = [0]
    told: set[str] = set()
    with Client() as client:
        for job_id in dict.fromkeys(ids):
            try:
                touched = client.jobs.update(job_id, priority=priority, time=time_limit_s, name=name, queue=queue)
            except (Refused, Conflict) as error:
                complain_of(error)
                codes.append(exit_code_of(error))
                continue
            write_lines(*(f"updated {each}" for each in touched if each not in told))
            told.update(touched)
    raise typer.Exit(max(codes))
