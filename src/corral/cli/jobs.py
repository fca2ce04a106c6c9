"""Commands that look at existing jobs: wait, why, logs."""

import sys
import time
from typing import Annotated, Literal

import typer

from corral.cli.endings import ending_of
from corral.cli.periods import parse_past
from corral.cli.screen import (
    command_group,
    example,
    print_json,
    say,
    start_time,
    width,
    wrapped,
    write_lines,
)
from corral.cli.wait_progress import WaitProgress
from corral.cli.waiting import has_reason
from corral.client import Client, Explanation, WaitTimedOut
from corral.model.errors import Refused
from corral.model.job import Phase
from corral.model.units import format_duration, is_whole, parse_duration_s

TIMED_OUT = 124

JobId = Annotated[str, typer.Argument(metavar="ID", help="Job id.")]
JobIds = Annotated[list[str], typer.Argument(metavar="ID...", help="Job ids. An array's id stands for all its jobs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = command_group()


@app.command(epilog=example("corral wait 17 18 --timeout 2h"))
def wait(
    ids: JobIds,
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


@app.command(epilog=example("corral why 17"))
def why(job_id: JobId, json: AsJson = False) -> None:
    """Explain why a job waits, and what would start it now.

    Also shows its place in the queue, and for a job that has started, how long it waited for which reason. For one that
    failed, what the end of its log says about it and how to fix it.
    """
    with Client() as client:
        explanation = client.jobs.why(job_id)
    if json:
        print_json(explanation)
    else:
        columns = width() if sys.stdout.isatty() else None
        for line in explained(explanation):
            first, *more = wrapped(line, columns - 2) if columns else [line]
            write_lines(first, *(f"  {part}" for part in more))


@app.command(epilog=example("corral logs -f 17", "corral logs -n 20 17"))
def logs(
    job_id: JobId,
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
    if has_reason(explanation):
        # The sentence begins with the job's name, which may be any words, and is cut with an ellipsis if it is long.
        named = explanation.reason.removeprefix(row.name or f"job {job_id}")
        why = named.partition(" waits" if named.startswith(" waits") else "… waits")[2].rstrip(".")
    return f"job {job_id} waits{why}; its log begins when it starts"


def explained(explanation: Explanation) -> list[str]:
    """The lines that `why` prints."""
    lines = [explanation.reason, *(line for line in (explanation.diagnosis, explanation.holds) if line)]
    if explanation.position is not None:
        lines.append(f"place in the queue: {explanation.position}")
    if explanation.phase == "PENDING":
        lines.append(f"expected start: {start_time(explanation.expected_start, explanation.expected_start_is)}")
    elif explanation.phase == "STOPPING" and (explanation.expected_start or explanation.eviction):
        lines.append(f"continues: {start_time(explanation.expected_start, explanation.expected_start_is)}")
    if explanation.starts_now_with and explanation.starts_now_with not in explanation.reason:
        lines.append(f"starts now with: {explanation.starts_now_with}")
    if explanation.waited:
        total = sum(part.seconds for part in explanation.waited)
        spent = ", ".join(f"{part.reason} {format_duration(part.seconds)}" for part in explanation.waited)
        lines.append(f"waited {format_duration(total)}: {spent}")
    return lines
