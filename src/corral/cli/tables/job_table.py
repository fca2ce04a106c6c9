"""The table of `corral ps`: the listed jobs and their order, updated at each call."""

from __future__ import annotations

import time
from collections import Counter
from math import inf

from corral.cli.direct.rows import rows_of
from corral.cli.screen import painted, print_json, say, write_painted
from corral.cli.tables.job_groups import grouped
from corral.cli.tables.job_rows import (
    DEFAULT_COLUMNS,
    fill_in_nodes,
    group_lines,
    needs_places,
    oldest_first,
    start_lines,
)
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport
from corral.formatting.job_words import places_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from corral.cli.tables.job_groups import Group
    from corral.client import JobRow

LONGEST_PAGE = 10_000
"""The most jobs that a server lists in one answer, unless asked for all."""

UNDER_WAY = ("STARTING", "RUNNING", "STOPPING")


def show_jobs(
    wanted: Mapping[str, Any],
    sort: str | None,
    limit: int | None,
    columns: Sequence[str] | None,
    *,
    header: bool,
    elements: bool,
    start: bool,
    watch: bool,
    json: bool,
) -> None:
    """Print the table of the `wanted` jobs, or the jobs as JSON in an order. Raises Refused.

    Similar elements of an array are joined in one row, unless `elements` is set.
    """
    order = _order(sort)
    if json:
        print_json(_ordered(wanted, order, start=start))
        return
    transport, shown = Transport(find_address()), columns or DEFAULT_COLUMNS
    table = JobTable(transport, wanted, order, limit, shown, header=header, elements=elements)
    if watch:
        from corral.cli.tables.live import show_live

        show_live(table.starts if start else table.live, "ps")
        return
    lines, left_out = (table.starts(), None) if start else table.jobs()
    write_painted(*lines)
    if left_out is not None:
        say(left_out)


def _order(sort: str | None) -> str | None:
    """The sort order in the server's form. Raises Refused."""
    if sort is None:
        return None
    from corral.core.model.jobs.job_sort import parse_sort

    parsed = parse_sort(sort, field="--sort")
    return f"-{parsed.key}" if parsed.descending else parsed.key


def _ordered(wanted: Mapping[str, Any], order: str | None, *, start: bool) -> Sequence[JobRow]:
    """All wanted jobs in this order. With `start`, the waiting ones by their expected start."""
    from corral.client import Client

    with Client() as client:
        if not start:
            return client.jobs.list(limit=None, sort=order, **wanted)
        return _by_start(client.jobs.list(limit=None, starts=True, **{**wanted, "phase": "PENDING"}))


def _by_start(rows: Sequence[JobRow]) -> list[JobRow]:
    """The jobs by expected start. Jobs without a prediction come last."""
    return sorted(rows, key=lambda row: (row.expected_start or inf, row.sequence or 0, row.id))


class JobTable:
    """The lines of a job table, requested again at each call. `wanted` is the query of a listing."""

    def __init__(
        self,
        transport: Transport,
        wanted: Mapping[str, Any],
        order: str | None,
        limit: int | None,
        columns: Sequence[str],
        *,
        header: bool,
        elements: bool,
    ) -> None:
        self._transport = transport
        self._wanted = wanted
        self._order = order
        self._limit = limit
        self._columns = columns
        self._header = header
        self._elements = elements

    def jobs(self) -> tuple[list[str], str | None]:
        """The lines, and a remark if jobs are left out."""
        groups, more = self._listed()
        which = "those under way and the newest others" if self._order is None else "the first in this order"
        count = sum(map(len, groups))
        left_out = f"only {count} jobs are listed, {which}; --limit 0 lists all" if more else None
        return self._lines(groups), left_out

    def live(self) -> list[str]:
        """The lines, below the number of jobs in each phase."""
        groups, more = self._listed()
        counts = Counter(row.phase for group in groups for row in group)
        words = ", ".join(f"{count} {phase}" for phase, count in counts.items()) or "no jobs"
        more_than = "more than " if more else ""
        return [painted(f"{time.strftime('%H:%M:%S')}  {more_than}{words}", "bold"), *self._lines(groups)]

    def starts(self) -> list[str]:
        """The lines of the waiting jobs with their expected starts. Elements of an array without one are joined."""
        rows = _by_start(self._asked(limit=0, starts=True, phase="PENDING"))
        known = [row for row in rows if row.expected_start is not None]
        groups = [*([row] for row in known), *self._grouped(rows[len(known) :])]
        return start_lines(groups, header=self._header)

    def _grouped(self, rows: Sequence[JobRow]) -> Sequence[Group]:
        return [[row] for row in rows] if self._elements else grouped(rows)

    def _listed(self) -> tuple[Sequence[Group], bool]:
        """The first of the jobs in this order, and whether there are more.

        Without an order, the newest jobs, with running jobs before all others, in the order of submission.
        """
        limit, order = self._limit, self._order
        if limit is None and order is not None:
            # Without a limit, all jobs come page by page, newest first, so they are sorted here.
            from corral.core.model.jobs.job_sort import parse_sort, sorted_rows

            return self._grouped(sorted_rows(self._asked(limit=0), parse_sort(order), time.time())), False
        rows = self._asked(limit=0 if limit is None else min(limit + 1, LONGEST_PAGE), sort=order)
        if limit is not None and len(rows) > limit and not self._elements and any(row.array_id for row in rows):
            # This many elements may be joined into a few rows.
            rows = self._asked(limit=LONGEST_PAGE, sort=order)
        groups = self._grouped(rows)
        more = limit is not None and (len(groups) > limit or len(rows) >= LONGEST_PAGE)
        if order is not None:
            return groups[:limit], more
        if not more:
            return self._grouped(oldest_first(rows)), False
        phases = [phase for phase in UNDER_WAY if phase in (self._wanted["phase"] or ",".join(UNDER_WAY)).split(",")]
        under_way = self._asked(limit=0, phase=",".join(phases)) if phases else ()
        first = {row.id: row for row in (*under_way, *rows)}
        kept = [row for group in self._grouped(list(first.values()))[:limit] for row in group]
        return self._grouped(oldest_first(kept)), True

    def _asked(self, **query: Any) -> list[JobRow]:
        return rows_of("JobRow", self._transport.get("/jobs", **{**self._wanted, **query})["jobs"])

    def _lines(self, groups: Sequence[Group]) -> list[str]:
        rows = [row for group in groups for row in group]
        places = needs_places(rows, self._columns)
        devices = rows_of("DeviceRow", self._transport.get("/devices")["devices"]) if places else ()
        if "node" in self._columns:
            fill_in_nodes(rows, devices)
        return group_lines(groups, places_of(devices, rows), time.time(), self._columns, header=self._header)
