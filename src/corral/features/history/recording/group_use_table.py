"""The table with the sums of groups, by the minute and by the hour, in the file of the history."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Column, Connection, Float, Integer, MetaData, String, Table, and_, delete, func, select
from sqlalchemy.dialects.sqlite import insert

from corral.core.model.devices.group_use import POOL, GroupUse, KpiBy
from corral.features.history.recording.file import HistoryFile

_MINUTE_S, _HOUR_S = 60, 3600
STEPS_S = (_MINUTE_S, _HOUR_S)

_KEPT_S = {_MINUTE_S: 3 * 86_400, _HOUR_S: 366 * 86_400}
_LONGEST_BY_MINUTE_S = 2 * 86_400
"""A question about a longer time is answered from the hours."""

_KINDS = (POOL, *(by.value for by in KpiBy))

_metadata = MetaData()
_table = Table(
    "group_use",
    _metadata,
    # In this order a question reads one range of rows, new rows go to few places, and old rows are one range.
    Column("step_s", Integer, primary_key=True, autoincrement=False),
    Column("kind", String, primary_key=True),
    Column("start", Integer, primary_key=True, autoincrement=False),
    Column("name", String, primary_key=True),
    *(Column(name, Float, nullable=False) for name in GroupUse._fields),
    sqlite_with_rowid=False,
)
_SUMS = [func.sum(_table.c[name]) for name in GroupUse._fields]


class StoredUse(NamedTuple):
    """The use by one group (a user, project, ...) in one step of time, which begins at `start` (Unix seconds)."""

    step_s: int
    start: int
    kind: str
    name: str
    use: GroupUse


class GroupUseTable:
    """Adds to the sums and adds them up. Every call raises BackendFailed if the disk fails or is full."""

    def __init__(self, file: HistoryFile) -> None:
        self._file = file

    def add(self, rows: Iterable[StoredUse]) -> None:
        """Add these rows to the sums of the same step and group; all or none."""
        plain = [
            {"step_s": row.step_s, "kind": row.kind, "start": row.start, "name": row.name, **row.use._asdict()}
            for row in rows
        ]
        if plain:
            with self._connection() as connection:
                connection.execute(_ADD, plain)

    def sums(self, kind: str, first: float, last: float, now: float) -> dict[str, GroupUse]:
        """Return the sums of the groups of a kind from `first` up to `last` (Unix seconds), by name.

        The sums are by the minute, or by the hour if the time is longer than two days or its minutes were deleted. The
        database adds up, which blocks no other thread.
        """
        by_minute = last - first <= _LONGEST_BY_MINUTE_S and first >= now - _KEPT_S[_MINUTE_S]
        step_s = _MINUTE_S if by_minute else _HOUR_S
        question = (
            select(_table.c.name, *_SUMS)
            .where(
                _table.c.step_s == step_s,
                _table.c.kind == kind,
                _table.c.start >= first // step_s * step_s,
                _table.c.start < last,
            )
            .group_by(_table.c.name)
        )
        with self._connection() as connection:
            return {name: GroupUse._make(sums) for name, *sums in connection.execute(question)}

    def forget(self, now: float) -> None:
        """Delete rows that are past their retention."""
        with self._connection() as connection:
            for step_s, kept_s in _KEPT_S.items():
                # With the kind, the index finds the old rows without a look at all others.
                old = and_(_table.c.step_s == step_s, _table.c.kind.in_(_KINDS), _table.c.start < now - kept_s)
                connection.execute(delete(_table).where(old))

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with self._file.connection() as connection:
            # The file may be new each time: it may have been lost.
            _metadata.create_all(connection)
            yield connection


_add = insert(_table)
_ADD = _add.on_conflict_do_update(
    index_elements=["step_s", "kind", "start", "name"],
    set_={name: _table.c[name] + _add.excluded[name] for name in GroupUse._fields},
)
