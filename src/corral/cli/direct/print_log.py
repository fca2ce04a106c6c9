"""`corral logs`: the output of a job."""

from __future__ import annotations

import sys

from corral.cli.direct.list_jobs import moment
from corral.cli.direct.named_job import job_meant
from corral.cli.screen import say
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport, job_path
from corral.core.model.errors import Refused
from corral.core.model.units import is_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.cli.commands import looking
    from corral.client import Explanation


def print_log(given: looking.LogsCommand) -> int:
    """Print the output of a job, or the reason why there is none. Return the exit code."""
    if given.rank != "all" and not is_whole(given.rank):
        raise Refused(f"--rank: {given.rank!r:.60} is not a rank; write a number from 0, or all", field="rank")
    at = moment(given.since)
    transport = Transport(find_address())
    job_id = job_meant(transport, given.job_id)
    if given.follow and (notice := _no_log_yet(transport, job_id)):
        say(notice)
    blocks = transport.stream(
        job_path(job_id, "logs"),
        follow=given.follow,
        rank=given.rank if given.rank == "all" else int(given.rank) or None,
        tail=given.tail,
        since=None if at is None else int(at),
    )
    shown = False
    for block in blocks:
        shown = True
        sys.stdout.buffer.write(block)
        sys.stdout.buffer.flush()
    # Most jobs have a log that says everything. So the reason for an empty log is requested only afterwards.
    if not shown and (
        notice := (None if given.follow else _no_log_yet(transport, job_id)) or _never_ran(transport, job_id)
    ):
        say(notice)
    return 0


def _never_ran(transport: Transport, job_id: str) -> str | None:
    """Why a job that has ended has no log. None if the job has run or has not ended."""
    answer = transport.get(job_path(job_id))
    if answer["attempts"]:
        return None
    from corral.cli.direct.rows import row_of
    from corral.cli.jobs.endings import ending_of

    row = row_of("JobRow", answer)
    return f"{ending_of(row)}; it never ran, and has no log" if row.ended else None


def _no_log_yet(transport: Transport, job_id: str) -> str | None:
    """Why a job has no output yet; None if it has been started."""
    row = transport.get(job_path(job_id))
    if row["phase"] != "PENDING" or row["attempts"]:
        return None
    explanation = transport.get(job_path(job_id, "why"))
    if explanation["phase"] != "PENDING":
        return None
    return f"job {job_id} has no log until it starts; it waits{_because(row, explanation)}"


def _because(row: dict[str, Any], explanation: Any) -> str:
    from corral.cli.direct.rows import row_of

    told: Explanation = row_of("Explanation", explanation)
    if not told.considered:
        return ""
    # The sentence begins with the job's name, which may be any words. A long name is cut with an ellipsis.
    named = told.reason.removeprefix(row["name"] or f"job {row['id']}")
    return named.partition(" waits" if named.startswith(" waits") else "… waits")[2].rstrip(".")
