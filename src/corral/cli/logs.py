"""`corral logs`: the output of a job."""

import sys
import time
from typing import Annotated, Literal

import typer

from corral.cli.endings import ending_of
from corral.cli.periods import parse_past
from corral.cli.screen import command_group, example, say
from corral.client import Client
from corral.model.errors import Refused
from corral.model.job import Phase
from corral.model.units import is_whole

app = command_group()


@app.command(epilog=example("corral logs -f 17", "corral logs -n 20 17"))
def logs(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="Job id.")],
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
    if rank != "all" and not is_whole(rank):
        raise Refused(f"--rank: {rank!r:.60} is no rank; write a number from 0, or all", field="rank")
    which: int | Literal["all"] = "all" if rank == "all" else int(rank)
    at = None if since is None else parse_past(since, time.time(), field="--since")
    with Client() as client:
        shown = False
        if notice := no_log_yet(client, job_id):
            say(notice)
        for block in client.jobs.logs_bytes(job_id, follow=follow, rank=which, tail=tail, since=at):
            shown = True
            sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()
        if not shown and (notice := never_ran(client, job_id)):
            say(notice)


def never_ran(client: Client, job_id: str) -> str | None:
    """Why a job that has ended has no log, None where something of it ran."""
    row = client.jobs.get(job_id)
    return f"{ending_of(row)}; it never ran, and has no log" if row.ended and not row.attempts else None


def no_log_yet(client: Client, job_id: str) -> str | None:
    """Why a job has no output yet, None where it has been started."""
    row = client.jobs.get(job_id)
    if row.phase != Phase.PENDING or row.attempts:
        return None
    explanation = client.jobs.why(job_id)
    if explanation.phase != Phase.PENDING:
        return None
    why = ""
    if explanation.considered:
        # The sentence begins with the job's name, which may be any words, and is cut with an ellipsis if it is long.
        named = explanation.reason.removeprefix(row.name or f"job {job_id}")
        why = named.partition(" waits" if named.startswith(" waits") else "… waits")[2].rstrip(".")
    return f"job {job_id} waits{why}; its log begins when it starts"
