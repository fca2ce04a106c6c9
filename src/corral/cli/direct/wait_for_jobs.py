"""`corral wait`: waits until jobs have ended."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from corral.cli.direct.named_job import job_meant
from corral.cli.screen import say
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport, is_plain
from corral.client.waiting import wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from corral.cli.commands import running
TIMED_OUT = 124


def wait_for_jobs(given: running.WaitCommand) -> int:
    """Wait until these jobs have ended. Return 0 if all succeeded, 1 if one did not, TIMED_OUT if the time is up."""
    transport = Transport(find_address())
    ids: Sequence[str] = [job_meant(transport, word) for word in given.ids]
    timeout_s = _seconds(given.timeout)
    if not all(map(is_plain, ids)):
        from corral.client.submitting.arguments import job_ids

        ids = job_ids(ids)
    with _progress(ids):
        rows, done = wait_for(transport, ids, timeout_s)
    if not done:
        say(_unfinished(rows, timeout_s))
        return TIMED_OUT
    failed = [row for row in rows if row["phase"] != "SUCCEEDED"]
    if failed:
        _say_endings(failed)
    return 1 if failed else 0


def _seconds(timeout: str | None) -> float | None:
    if timeout is None:
        return None
    from corral.core.model.units import parse_duration_s

    # A bare number means seconds here, as in timeout(1). Only a job's time limit must have a unit.
    return parse_duration_s(f"{timeout}s" if timeout.isdecimal() else timeout, field="--timeout")


def _progress(ids: Sequence[str]) -> AbstractContextManager[object]:
    """A line that shows how many jobs have ended, if standard error is a terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    from corral.cli.jobs.wait_progress import WaitProgress

    return WaitProgress(ids)


def _unfinished(rows: Sequence[dict[str, Any]], timeout_s: float | None) -> str:
    from corral.cli.direct.rows import rows_of
    from corral.client.client import timed_out

    return str(timed_out(rows_of("JobRow", rows), timeout_s))


def _say_endings(rows: Sequence[dict[str, Any]]) -> None:
    from corral.cli.direct.rows import rows_of
    from corral.cli.jobs.endings import ending_of

    for row in rows_of("JobRow", rows):
        say(ending_of(row))
