"""`corral ps`: the jobs there are, narrowed, ordered and shown as the user wants."""

from typing import Annotated

import typer

from corral.cli.direct.list_jobs import list_jobs
from corral.cli.job_rows import COLUMNS
from corral.cli.job_table import LONGEST_PAGE
from corral.cli.screen import command_group, example
from corral.model.job_sort import SORT_KEYS

PAGE = 100

app = command_group()


@app.command(epilog=example("corral ps --user me", "corral ps --all --state failed --since 2d --sort -ended"))
def ps(
    *,
    every: Annotated[bool, typer.Option("--all", "-a", help="Also list jobs that have ended.")] = False,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", "-u", metavar="NAME,..", help="Only jobs of these users; me is yourself."),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", "-t", metavar="STATE,..", help="Only jobs in these states: waiting, running, failed, ended."
        ),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME,..", help="Only jobs of these names, such as 'sweep-*'.")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", metavar="NAME,..", help="Only jobs of these queues.")
    ] = None,
    project: Annotated[
        list[str] | None, typer.Option("--project", metavar="NAME,..", help="Only jobs of these projects.")
    ] = None,
    means: Annotated[
        str | None,
        typer.Option(
            "--means", metavar="MEANS", help="Only jobs that hold GPUs so: exclusive (whole), mps, mig, timeslice."
        ),
    ] = None,
    array: Annotated[
        str | None, typer.Option("--array", metavar="ID", help="Only jobs of this array, each in a row.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Only jobs submitted in this time, or since: 2h, 2026-11-20."),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort", metavar="KEY", help=f"Sort by this, with - before it the latest first: {', '.join(SORT_KEYS)}."
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="NAME,..", help=f"Show these columns: {', '.join(COLUMNS)}."),
    ] = None,
    elements: Annotated[
        bool, typer.Option("--elements", help="List each element of an array; else those that are alike are one row.")
    ] = False,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="For scripts: leave out the titles, and list each element of an array.")
    ] = False,
    start: Annotated[bool, typer.Option("--start", help="Only waiting jobs, with their expected start times.")] = False,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            min=0,
            max=LONGEST_PAGE - 1,
            metavar="N",
            help="List N jobs, those under way before the newest others; 0 lists all.",
        ),
    ] = PAGE,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show the table anew each second, until q or Ctrl-C.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON, newest first; --limit does not count."),
    ] = False,
) -> None:
    """List jobs that wait or run.

    TIME is how long a job has run, or waited so far. The last column shows where it runs, why it waits or how it ended.

    Elements of an array in the same phase are one row, such as 17_[3-49] with GPUS 47x1; TIME is that of the oldest,
    and of those that wait the last column is about the next to start. Other commands take 17_[3-49] in place of an id.
    """
    code = list_jobs(
        json=json, start=start, watch=watch, sort=sort, columns=columns, no_header=no_header, limit=limit, every=every,
        elements=elements, user=user, state=state, name=name, queue=queue, project=project, means=means, array=array,
        since=since,
    )  # fmt: skip
    raise typer.Exit(code)
