"""`corral ps`: the jobs there are, narrowed, ordered and shown as the user wants."""

import gc
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any

import typer

from corral.cli.job_rows import (
    COLUMNS,
    DEFAULT_COLUMNS,
    job_lines,
    needs_places,
    oldest_first,
    parse_columns,
    start_lines,
    with_nodes,
)
from corral.cli.screen import command_group, example, painted, print_json, say, write_painted
from corral.client import Client, JobRow
from corral.formatting.job_words import places_of
from corral.model.errors import Refused
from corral.model.job_sort import SORT_KEYS, parse_sort

PAGE = 100
LONGEST_PAGE = 10_000
"""The most jobs that a server lists in one answer, unless asked for all."""

UNDER_WAY = ("STARTING", "RUNNING", "STOPPING")

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
    array: Annotated[str | None, typer.Option("--array", metavar="ID", help="Only jobs of this array.")] = None,
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
    no_header: Annotated[bool, typer.Option("--no-header", help="Leave out the titles.")] = False,
    start: Annotated[bool, typer.Option("--start", help="Only waiting jobs, with their expected start times.")] = False,
    limit: Annotated[
        int,
        typer.Option("--limit", min=0, max=LONGEST_PAGE - 1, metavar="N", help="List the newest N jobs; 0 lists all."),
    ] = PAGE,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show the table anew each second, until q or Ctrl-C.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, always of all jobs.")] = False,
) -> None:
    """List jobs that wait or run.

    TIME is how long a job has run, or waited so far. The last column shows where it runs, why it waits or how it ended.
    """
    names = DEFAULT_COLUMNS if columns is None else parse_columns(columns)
    if columns is not None and (json or start):
        raise Refused("--columns is for the table of jobs; leave it out with --json and --start", field="--columns")
    if watch and json:
        raise Refused("--watch is for a terminal and --json for programs; leave one of them out", field="--watch")
    wanted = Wanted(every, _joined(user), _phases(state), _joined(name), _joined(queue), array, _moment(since))
    order = _order(sort)
    table = JobTable(wanted, order, limit or None, names, header=not no_header)
    if watch:
        from corral.cli.live import show_live

        with Client() as client:
            show_live(lambda: table.starts(client) if start else table.live(client), "ps")
        return
    # All that is made here is kept to the end, and to look for garbage among it takes as long as to make it.
    gc.disable()
    with Client() as client:
        if json:
            print_json(
                _by_start(client, wanted) if start else client.jobs.list(limit=None, sort=order, **wanted.options())
            )
            return
        lines, left_out = (table.starts(client), None) if start else table.jobs(client)
    write_painted(*lines)
    if left_out is not None:
        say(left_out)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs to list, as `Jobs.list` takes it; `phases` () are all that `every` allows."""

    every: bool = False
    user: str | None = None
    phases: tuple[str, ...] = ()
    name: str | None = None
    queue: str | None = None
    array: str | None = None
    since: float | None = None

    def options(self, phases: Sequence[str] | None = None) -> dict[str, Any]:
        """The arguments of `Jobs.list`; `phases` in place of its own."""
        wanted = self.phases if phases is None else phases
        return {
            "all": self.every, "user": self.user, "phase": ",".join(wanted) or None, "name": self.name,
            "queue": self.queue, "array": self.array, "since": self.since,
        }  # fmt: skip


def _joined(given: Sequence[str] | None) -> str | None:
    """What a flag was given, once or several times, as the server takes it."""
    return None if given is None else ",".join(given)


def _phases(states: Sequence[str] | None) -> tuple[str, ...]:
    if not states:
        return ()
    from corral.cli.states import phases_of

    return tuple(phase.value for phase in phases_of(states))


def _moment(since: str | None) -> float | None:
    if since is None:
        return None
    from corral.cli.periods import parse_past

    return parse_past(since, time.time(), field="--since")


def _order(sort: str | None) -> str | None:
    """The order as the server has it. Raises Refused."""
    if sort is None:
        return None
    parsed = parse_sort(sort, field="--sort")
    return f"-{parsed.key}" if parsed.descending else parsed.key


def listed_jobs(client: Client, wanted: Wanted, order: str | None, limit: int | None) -> tuple[Sequence[JobRow], bool]:
    """The first `limit` jobs in this order, and whether there are more.

    Without an order these are the newest, running ones before all others, oldest first.
    """
    most = None if limit is None else min(limit + 1, LONGEST_PAGE)
    rows = client.jobs.list(limit=most, sort=order, **wanted.options())
    more = limit is not None and len(rows) > limit
    if order is not None:
        return rows[:limit], more
    if not more:
        return oldest_first(rows), False
    phases = [phase for phase in UNDER_WAY if not wanted.phases or phase in wanted.phases]
    under_way = client.jobs.list(limit=None, **wanted.options(phases)) if phases else ()
    first = {row.id: row for row in (*under_way, *rows)}
    return oldest_first(list(first.values())[:limit]), True


def _by_start(client: Client, wanted: Wanted) -> list[JobRow]:
    """Waiting jobs by expected start; those whose start cannot be predicted come last."""
    rows = client.jobs.list(limit=None, starts=True, **wanted.options(["PENDING"]))
    return sorted(rows, key=lambda row: (row.expected_start or inf, row.sequence or 0, row.id))


@dataclass(frozen=True, slots=True)
class JobTable:
    """What of which jobs is shown, as it stands whenever it is asked for."""

    wanted: Wanted
    order: str | None
    limit: int | None
    columns: Sequence[str]
    header: bool

    def jobs(self, client: Client) -> tuple[list[str], str | None]:
        """The lines, and what to say of the jobs that are left out."""
        rows, more = listed_jobs(client, self.wanted, self.order, self.limit)
        which = "newest" if self.order is None else "first"
        left_out = f"only the {which} {len(rows)} jobs are listed; --limit 0 lists all" if more else None
        return self._lines(client, rows), left_out

    def live(self, client: Client) -> list[str]:
        """The lines, below how many jobs are in which phase."""
        rows, more = listed_jobs(client, self.wanted, self.order, self.limit)
        counts = Counter(row.phase for row in rows)
        words = ", ".join(f"{count} {phase}" for phase, count in counts.items()) or "no jobs"
        more_than = "more than " if more else ""
        return [painted(f"{time.strftime('%H:%M:%S')}  {more_than}{words}", "bold"), *self._lines(client, rows)]

    def _lines(self, client: Client, rows: Sequence[JobRow]) -> list[str]:
        devices = client.devices.list() if needs_places(rows, self.columns) else ()
        shown = with_nodes(rows, devices) if "node" in self.columns else rows
        return job_lines(shown, places_of(devices), time.time(), self.columns, header=self.header)

    def starts(self, client: Client) -> list[str]:
        """The lines of the waiting jobs with their expected starts."""
        return start_lines(_by_start(client, self.wanted), header=self.header)
