"""Fold the journal from its start, and check that it leads to the rows of the tables."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Table, select

from corral.core.ledger import tables
from corral.core.ledger.changes import Changes, OwnRows
from corral.core.ledger.database import Database
from corral.core.ledger.reader import Reader
from corral.core.ledger.schema import revision
from corral.core.ledger.table_rows import Row, job_row, spec_row
from corral.core.model.errors import LedgerFailed
from corral.core.model.slice import LedgerSnapshot, SliceType, empty_snapshot
from corral.core.model.view import View, ViewDraft
from corral.core.ports.ledger import JournalEntry

MOST_DIFFERENCES = 100


def fold(entries: Iterable[JournalEntry], slices: Sequence[SliceType] = ()) -> LedgerSnapshot:
    """The view and the slices that result from the facts of a whole journal."""
    return empty_snapshot(slices).advance(entry.fact for entry in entries)


def check(url: str, slices: Sequence[SliceType] = ()) -> tuple[str, ...]:
    """Compare the ledger's journal with its tables. Return a sentence per difference, () if they agree.

    The tables of features are compared if `slices` has their slices. The check reads one state of the database, even
    while a server writes it. It keeps every job in memory. Raises LedgerFailed if the ledger cannot be read at all.
    """
    database = Database(url)
    if not database.path.exists():
        raise LedgerFailed(f"there is no ledger at {database.path} to check; a server makes it when it first starts")
    try:
        with database.reading() as connection:
            found = revision(connection)
            if found != tables.REVISION:
                raise LedgerFailed(
                    f"{database.path} is of format {found}, not {tables.REVISION}; "
                    "start this version's server on it once, which migrates it or says why it cannot"
                )
            differences = _differences(
                connection, Reader(database), [kind.rows() for kind in slices if kind.rows is not None]
            )
            first = [text for _, text in zip(range(MOST_DIFFERENCES), differences, strict=False)]
            more = sum(1 for _ in differences)
    finally:
        database.close()
    return (*first, f"and {more} more differences") if more else tuple(first)


def _differences(connection: Connection, reader: Reader, own: Sequence[OwnRows]) -> Iterator[str]:
    state = _Folded(own)
    expected = 1
    for entry in reader.entries(connection):
        if entry.sequence != expected:
            yield f"journal entries {expected} to {entry.sequence - 1} are missing"
        expected = entry.sequence + 1
        try:
            state.add(entry)
        except (KeyError, TypeError) as error:
            yield f"journal entry {entry.sequence} does not follow from those before it: {error!r}"
    for table, key, rows in state.rows():
        yield from _compare(table, key, rows, _stored(connection, table, key))


class _Folded:
    """The rows of the tables that follow from the journal."""

    def __init__(self, own: Sequence[OwnRows]) -> None:
        self._draft = ViewDraft(View())
        self._changes = Changes()
        self._own = own

    def add(self, entry: JournalEntry) -> None:
        """Fold one more entry. Raises KeyError for an entry that cannot follow the ones before."""
        self._draft.apply((entry.fact,))
        self._changes.add(entry.fact, {"sequence": entry.sequence}, self._draft.view)
        for rows in self._own:
            rows.add(entry.fact)

    def rows(self) -> Iterator[tuple[Table, str, dict[Any, Row]]]:
        """Each table with the name of its key column, and its rows by key."""
        # The draft was never frozen, so the jobs that ended are still in it.
        jobs = self._draft.view.jobs
        yield tables.jobs, "id", {job_id: job_row(job, spec_row(job.spec)) for job_id, job in jobs.items()}
        yield tables.allocations, "entry", self._changes.made
        latest_entries = [(subject, entry) for subject, entry in self._changes.latest.items() if entry is not None]
        latest = {subject: {"subject": subject, "entry": entry} for subject, entry in latest_entries}
        yield tables.latest_facts, "subject", latest
        for own in self._own:
            yield own.table, own.key, dict(own.rows)


def _stored(connection: Connection, table: Table, key: str) -> dict[Any, Row]:
    return {row[key]: dict(row) for row in connection.execute(select(table).order_by(table.c[key])).mappings()}


def _compare(table: Table, key: str, folded: Mapping[Any, Row], stored: Mapping[Any, Row]) -> Iterator[str]:
    for value in dict.fromkeys(chain(folded, stored)):
        name = f"{table.name} {key}={value}"
        if value not in stored:
            yield f"{name} is in the journal but not in the table"
        elif value not in folded:
            yield f"{name} is in the table but not in the journal"
        else:
            for column, by_journal in folded[value].items():
                if not _alike(column, stored[value][column], by_journal):
                    yield f"{name}: {column} is {stored[value][column]!r} in the table, {by_journal!r} by the journal"


def _alike(column: str, stored: Any, by_journal: Any) -> bool:
    """Whether a column has the value of the journal. JSON may have its fields in the order of an earlier version."""
    if stored == by_journal or column not in _OBJECTS or not (stored and by_journal):
        return bool(stored == by_journal)
    try:
        return bool(json.loads(stored) == json.loads(by_journal))
    except ValueError:
        return False


_OBJECTS = frozenset({"spec", "state"})
"""Columns with JSON of the fields of a class."""
