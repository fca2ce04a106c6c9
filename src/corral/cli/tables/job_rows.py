"""The texts of job tables: a cell of each column for a row. Nothing is printed here."""

from __future__ import annotations

import time

from corral.cli.screen import fitted
from corral.cli.tables.job_groups import (
    cell_of,
    gpus_of,
    ids_of,
    indices_of_devices,
    nodes_of,
    place_of,
    time_of,
)
from corral.cli.tables.text_table import TextTable
from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.named_values import named_values
from corral.core.model.units import format_duration
from corral.formatting.job_words import (
    PHASE_STYLES,
    devices_of,
    gpus_asked,
    job_called,
    job_place,
    job_time,
    memory_of,
    shares_of,
    wait_word,
)
from corral.formatting.times import clock_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from corral.cli.tables.job_groups import Group
    from corral.client import DeviceRow, JobRow
    from corral.formatting.job_words import Places

LEAST_PARAMS_WIDTH = 20
"""The characters for a job's parameters in a terminal of 80 columns. Wider terminals show more."""


class Column:
    """A column of a job table: its title, the text for a row, and its layout.

    `several` is the text for elements of an array in one row, if it can show different values. `limit` is the greatest
    width if the line is too short. `numeric` columns are aligned to the right.
    """

    def __init__(
        self,
        title: str,
        text: Callable[[JobRow, Places, float], str],
        limit: int | None = None,
        numeric: bool = False,
        several: Callable[[Group, Places, float], str] | None = None,
    ) -> None:
        self.title = title
        self.text = text
        self.several = several
        self.limit = limit
        self.numeric = numeric


COLUMNS: dict[str, Column] = {
    "id": Column("ID", lambda row, places, now: row.id, 12, several=lambda group, places, now: ids_of(group)),
    "name": Column("NAME", lambda row, places, now: job_called(row), 14),
    "user": Column("USER", lambda row, places, now: row.user, 8),
    "state": Column("PHASE", lambda row, places, now: row.phase),
    "gpus": Column(
        "GPUS",
        lambda row, places, now: gpus_asked(row),
        numeric=True,
        several=lambda group, places, now: gpus_of(group),
    ),
    "time": Column(
        "TIME",
        lambda row, places, now: job_time(row, now),
        numeric=True,
        several=lambda group, places, now: time_of(group, now),
    ),
    "where": Column(
        "WHERE, WHY",
        lambda row, places, now: f"{_params(row)}{job_place(row, places)}",
        40,
        several=lambda group, places, now: place_of(group, places),
    ),
    "submitted": Column("SUBMITTED", lambda row, places, now: _moment(row.submitted_at)),
    "started": Column("STARTED", lambda row, places, now: _moment(row.started_at)),
    "ended": Column("ENDED", lambda row, places, now: _moment(row.ended_at)),
    "attempts": Column("ATTEMPTS", lambda row, places, now: str(row.attempts), numeric=True),
    "exit": Column("EXIT", lambda row, places, now: "-" if row.exit_code is None else str(row.exit_code), numeric=True),
    "queue": Column("QUEUE", lambda row, places, now: row.queue, 12),
    "project": Column("PROJECT", lambda row, places, now: row.project, 12),
    "priority": Column("PRIORITY", lambda row, places, now: str(row.priority), numeric=True),
    "node": Column(
        "NODE",
        lambda row, places, now: ",".join(row.nodes) or "-",
        16,
        several=lambda group, places, now: nodes_of(group),
    ),
    "gpu": Column(
        "GPU",
        lambda row, places, now: devices_of(row, places) or "-",
        16,
        several=lambda group, places, now: indices_of_devices(group, places),
    ),
    "share": Column("SHARE", lambda row, places, now: shares_of(row) or "-", 12),
    "memory": Column("MEMORY", lambda row, places, now: memory_of(row) or "-", numeric=True),
    "reason": Column("REASON", lambda row, places, now: row.reason or "-", 40),
    "wait": Column("WAIT", lambda row, places, now: wait_word(row) if row.phase == "PENDING" else "-", 16),
    "starts": Column("STARTS", lambda row, places, now: _moment(row.expected_start)),
    "begin": Column("BEGIN", lambda row, places, now: _moment(row.begin_at)),
    "limit": Column("LIMIT", lambda row, places, now: format_duration(row.time_limit_s)),
    "array": Column("ARRAY", lambda row, places, now: row.array_id or "-", 12),
    "command": Column("COMMAND", lambda row, places, now: _command(row), 40),
}
"""The columns that a job table may have, by the names that --columns takes."""

DEFAULT_COLUMNS = ("id", "name", "user", "state", "gpus", "time", "where")

_CALLED_ALSO = {"phase": "state", "job": "id", "jobid": "id", "attempt": "attempts", "exit_code": "exit"}


def parse_columns(text: str) -> tuple[str, ...]:
    """The names of columns in "id,name,started". Raises Refused."""
    names = tuple(_CALLED_ALSO.get(word, word) for word in (part.strip().lower() for part in text.split(",")))
    for name in names:
        if name not in COLUMNS:
            raise Refused(f"--columns: {name!r:.40} is not a column; {nearest(name, COLUMNS)}", field="--columns")
    return names


def needs_places(rows: Iterable[JobRow], columns: Sequence[str] = DEFAULT_COLUMNS) -> bool:
    """Whether the devices must be known to show where these jobs are."""
    placed = any(row.devices or (row.gpus == 0 and row.nodes) for row in rows)
    return placed and not {"where", "gpu", "node"}.isdisjoint(columns)


def job_lines(
    rows: Sequence[JobRow],
    places: Places,
    now: float,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    *,
    header: bool = True,
) -> list[str]:
    """The table of these jobs, one row each, in the given order."""
    return group_lines([[row] for row in rows], places, now, columns, header=header)


def group_lines(
    groups: Sequence[Group],
    places: Places,
    now: float,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    *,
    header: bool = True,
) -> list[str]:
    """The table of these jobs, one row for each group, in the given order."""
    chosen = [COLUMNS[name] for name in columns]
    table = TextTable(
        [column.title for column in chosen],
        limits={column.title: column.limit for column in chosen if column.limit is not None},
        numeric=[column.title for column in chosen if column.numeric],
    )
    for group in groups:
        cells = [_cell(column, group, places, now) for column in chosen]
        table.add(*cells, style=PHASE_STYLES.get(group[0].phase))
    lines = table.lines(paint="PHASE" if "state" in columns else None)
    return lines if header else lines[1:]


def _cell(column: Column, group: Group, places: Places, now: float) -> str:
    if len(group) > 1 and column.several is not None:
        return column.several(group, places, now)
    return cell_of(column.text, group, places, now)


def oldest_first(rows: Iterable[JobRow]) -> list[JobRow]:
    """The jobs in the order of their submission."""
    return sorted(rows, key=lambda row: (row.sequence or 0, row.id))


def start_lines(groups: Sequence[Group], *, header: bool = True) -> list[str]:
    """The table of `ps --start`, in the given order."""
    titles = ("ID", "NAME", "USER", "GPUS", "STARTS", "THAT IS", "WHY")
    table = TextTable(titles, limits={"ID": 12, "NAME": 14, "USER": 8})
    for group in groups:
        row = group[0]
        when = "?" if row.expected_start is None else clock_time(row.expected_start)
        what = row.expected_start_is or "-"
        table.add(ids_of(group), job_called(row), row.user, gpus_of(group), when, what, wait_word(row))
    return table.lines()[0 if header else 1 :]


def fill_in_nodes(rows: Iterable[Any], devices: Sequence[DeviceRow]) -> None:
    """Set the nodes in rows of `corral.cli.direct.rows` for ended jobs that had whole devices.

    Listings leave these nodes out. `devices` shows which nodes such a job had.
    """
    node_of = {device.uuid: device.node for device in devices if device.node}
    for row in rows:
        row.nodes = row.nodes or list(dict.fromkeys(node_of[uuid] for uuid in row.devices if uuid in node_of))


def _params(row: JobRow) -> str:
    """The parameters of a sweep's job, as far as they leave room for its place: "lr=0.1 seed=1: "."""
    return f"{fitted(named_values(tuple(row.params.items())), 90, LEAST_PARAMS_WIDTH)}: " if row.params else ""


def _command(row: JobRow) -> str:
    import shlex

    return shlex.join(row.command)


def _moment(at: float | None) -> str:
    """A time that sorts as text and can be read by programs: "2026-11-22 10:58:03"."""
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
