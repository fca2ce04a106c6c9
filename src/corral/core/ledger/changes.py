"""The changes that facts make on disk: journal rows, and the resulting rows of the tables, one statement per table.

A job is written as it is at the end of the batch, however many facts changed it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, Protocol

from sqlalchemy import Connection, Table, bindparam, delete, insert, update
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.sql import Delete, Insert, Update

from corral.core.ledger import tables
from corral.core.ledger.table_rows import (
    Row,
    allocation_row,
    devices_row,
    environment_of,
    job_row,
    job_state,
    respecified_row,
    spec_row,
    stored_text,
)
from corral.core.model.errors import LedgerFailed
from corral.core.model.fact import (
    AllocationEnded,
    AllocationMade,
    DevicesExchanged,
    Fact,
    JobRequeued,
    JobSubmitted,
    JobUpdated,
)
from corral.core.model.view import View


class OwnRows(Protocol):
    """The rows that facts make in a feature's table. The facts may be those of a batch or of a whole journal.

    Attributes:
        table, key: the table, and the name of its key.
        rows: the existing rows that facts made or changed, by their key.
    """

    table: Table
    key: str
    rows: Mapping[Any, Row]

    def add(self, fact: Fact) -> None:
        """Add one more fact."""
        ...

    def write(self, connection: Connection) -> None:
        """Update the table to the state after the facts, within the transaction that writes them."""
        ...


@dataclass(slots=True)
class Changes:
    """The changes that facts make in the tables. The facts may be those of a batch or of a whole journal.

    Attributes:
        new_jobs: the journal row of the last submission of each job, by job id. This and all others keep the order of
            facts.
        changed_jobs: ids of jobs that existed before.
        updated_jobs: ids of jobs whose spec changed.
        made: rows of new allocations, by the journal sequence of their beginning; also if they have ended since.
        exchanged: the devices of allocations that were made before, by the id of the allocation.
        ended: the ends of allocations that were made before.
        latest: the journal sequence of the last fact, by subject; None if that fact closed the subject.
    """

    new_jobs: dict[str, Row] = field(default_factory=dict)
    changed_jobs: dict[str, None] = field(default_factory=dict)
    updated_jobs: dict[str, None] = field(default_factory=dict)
    made: dict[int, Row] = field(default_factory=dict)
    exchanged: dict[str, Row] = field(default_factory=dict)
    ended: list[Row] = field(default_factory=list)
    latest: dict[str, int | None] = field(default_factory=dict)
    _active: dict[str, Row] = field(default_factory=dict)
    _made_of: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, fact: Fact, entry: Row, view: View) -> None:
        """Add one more fact with its journal row. `view` is a view after this fact, and may include later facts too."""
        if isinstance(fact, JobSubmitted | JobRequeued):
            self.new_jobs[fact.job.id] = entry
        elif fact.about is not None and fact.about not in self.new_jobs:
            self.changed_jobs[fact.about] = None
        if fact.subject is not None:
            self.latest[fact.subject] = None if fact.closes else entry["sequence"]
        match fact:
            case AllocationMade(allocation=allocation):
                job = view.jobs.get(allocation.job_id)
                row = allocation_row(allocation, entry["sequence"], None, job)
                self.made[entry["sequence"]] = self._active[allocation.id] = row
                self._made_of.setdefault(allocation.job_id, []).append(row)
            case JobUpdated(job_id=job_id, before=before):
                self.updated_jobs[job_id] = None
                if "queue" in before:
                    # `view` may include later facts: allocations made before this update were for the queue that the
                    # job had then.
                    for row in self._made_of.pop(job_id, ()):
                        row["queue"] = stored_text(before["queue"])
            case DevicesExchanged(allocation=allocation):
                devices = devices_row(allocation)
                if allocation.id in self._active:
                    self._active[allocation.id].update(devices)
                else:
                    self.exchanged[allocation.id] = {"of_id": allocation.id, **devices}
            case AllocationEnded(allocation_id=allocation_id):
                end = {"ended_at": fact.at, "lost_from": fact.lost_from, "unbilled_from": fact.unbilled_from}
                if allocation_id in self._active:
                    self._active.pop(allocation_id).update(end)
                else:
                    self.ended.append({"of_id": allocation_id, **end})


def write_changes(
    connection: Connection, facts: Sequence[Fact], entries: Sequence[Row], view: View, own: Sequence[OwnRows]
) -> None:
    """Write `entries`, the journal rows of `facts` in order, and update the tables to the state of `view`.

    `own` are the tables of features.
    """
    changes = Changes()
    for fact, entry in zip(facts, entries, strict=True):
        changes.add(fact, entry, view)
    _ADD_ENTRY.run(connection, entries)
    _write_environments(connection, facts)
    _write_jobs(connection, changes, view)
    _EXCHANGE_DEVICES.run(connection, list(changes.exchanged.values()))
    # Ends come first: an allocation that begins anew under its old id must find that id free.
    _END_ALLOCATION.run(connection, changes.ended)
    _ADD_ALLOCATION.run(connection, list(changes.made.values()))
    _write_latest(connection, changes.latest)
    for rows in own:
        for fact in facts:
            rows.add(fact)
        rows.write(connection)


def _write_latest(connection: Connection, latest: Mapping[str, int | None]) -> None:
    open_ones = [{"subject": subject, "entry": entry} for subject, entry in latest.items() if entry is not None]
    _SET_LATEST.run(connection, open_ones)
    _DROP_LATEST.run(connection, [{"of_subject": subject} for subject, entry in latest.items() if entry is None])


def move_ceiling(connection: Connection, before: int, after: int) -> None:
    """Record that job ids below `after` may have been given out.

    Raises LedgerFailed if the record is not `before`: then another server has changed it.
    """
    if connection.execute(_MOVE_CEILING, {"before": before, "value": after}).rowcount != 1:
        raise LedgerFailed(
            "another server has taken job numbers from this ledger since this one opened it; nothing was written. "
            "Stop one of the two, then restart the other"
        )


def _write_environments(connection: Connection, facts: Sequence[Fact]) -> None:
    environments: dict[str, str] = {}
    specs = [fact.job.spec for fact in facts if isinstance(fact, JobSubmitted | JobRequeued)]
    for spec in {id(spec): spec for spec in specs}.values():
        if environment := environment_of(spec.env):
            environments[environment.digest] = environment.text
    rows = [{"digest": digest, "variables": text} for digest, text in environments.items()]
    _KEEP_ENVIRONMENT.run(connection, rows)


def _write_jobs(connection: Connection, changes: Changes, view: View) -> None:
    updated = changes.updated_jobs
    new = [
        job_row(view.jobs[job_id], spec_row(view.jobs[job_id].spec) if job_id in updated else entry)
        for job_id, entry in changes.new_jobs.items()
    ]
    _SET_JOB.run(connection, new)
    changed = [view.jobs[job_id] for job_id in changes.changed_jobs if job_id in view.jobs]
    _CHANGE_JOB.run(connection, [{"at_sequence": job.sequence, **job_state(job)} for job in changed])
    respecified = [{"at_sequence": job.sequence, **respecified_row(job)} for job in changed if job.id in updated]
    _RESPECIFY_JOB.run(connection, respecified)


MOST_VALUES = 999
"""The most values in one statement, by the lowest limit that SQLite is built with."""


_VALUES = re.compile(r"VALUES (\((?:\?(?:, )?)+\))")


class RowStatement:
    """A statement whose values all come from rows. It saves SQLAlchemy's work for each row, as long as the write.

    One step of SQLite inserts a few dozen rows at once. SQLite releases Python's lock in each step, and may get it back
    only milliseconds later if another thread computes.
    """

    def __init__(self, statement: Insert | Update | Delete, values: Sequence[str] | None = None) -> None:
        """`values` are the columns to write; None means all of them."""
        compiled = statement.compile(
            dialect=dialect(paramstyle="qmark"), column_keys=None if values is None else [*values]
        )
        self._sql = str(compiled)
        names = compiled.positiontup or []
        # The second name makes `itemgetter` return a tuple even for one column.
        self._values_of, self._width = itemgetter(*names, names[0]), len(names)
        self._rows_in_a_step = MOST_VALUES // self._width if isinstance(statement, Insert) else 1
        self._many_sql = _VALUES.sub(lambda found: f"VALUES {', '.join([found[1]] * self._rows_in_a_step)}", self._sql)

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run the statement with each row. A row has all values by name. Without rows, nothing is done."""
        step = self._rows_in_a_step
        many = len(rows) - len(rows) % step if step > 1 else 0
        if many:
            steps = (map(self._values, rows[first : first + step]) for first in range(0, many, step))
            connection.exec_driver_sql(self._many_sql, [tuple(chain.from_iterable(values)) for values in steps])
        if many < len(rows):
            connection.exec_driver_sql(self._sql, [*map(self._values, rows[many:])])

    def _values(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        values: tuple[Any, ...] = self._values_of(row)
        return values[: self._width]


_add_job = upsert(tables.jobs)
_SET_JOB = RowStatement(
    _add_job.on_conflict_do_update(
        index_elements=["id"], set_={column.name: _add_job.excluded[column.name] for column in tables.jobs.columns}
    )
)
_update_job = update(tables.jobs).where(tables.jobs.c.sequence == bindparam("at_sequence"))
_CHANGE_JOB = RowStatement(_update_job, ("phase", "started_at", "ended_at", "exit_code", "state"))
_RESPECIFY_JOB = RowStatement(_update_job, ("name", "spec"))
_KEEP_ENVIRONMENT = RowStatement(upsert(tables.environments).on_conflict_do_nothing())
_ADD_ENTRY = RowStatement(insert(tables.journal))
_ADD_ALLOCATION = RowStatement(insert(tables.allocations))
_of_active = tables.allocations.c.id == bindparam("of_id"), tables.allocations.c.ended_at.is_(None)
_END_ALLOCATION = RowStatement(
    update(tables.allocations).where(*_of_active), ("ended_at", "lost_from", "unbilled_from")
)
_EXCHANGE_DEVICES = RowStatement(update(tables.allocations).where(*_of_active), ("placement", "gpu_info"))
_set_latest = upsert(tables.latest_facts)
_SET_LATEST = RowStatement(
    _set_latest.on_conflict_do_update(index_elements=["subject"], set_={"entry": _set_latest.excluded.entry})
)
_DROP_LATEST = RowStatement(delete(tables.latest_facts).where(tables.latest_facts.c.subject == bindparam("of_subject")))
_MOVE_CEILING = update(tables.meta).where(
    tables.meta.c.name == tables.NEXT_ID, tables.meta.c.value == bindparam("before")
)
