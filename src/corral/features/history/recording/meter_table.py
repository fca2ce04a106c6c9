"""The table of measurements of each device of each allocation by hour, in the file of the history."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    Row,
    Select,
    String,
    Table,
    and_,
    case,
    delete,
    func,
    select,
)
from sqlalchemy.dialects.sqlite import insert

from corral.core.model.runs.run_history import MeteredHour
from corral.features.history.recording.file import HistoryFile

_metadata = MetaData()
_metered = Table(
    "metered",
    _metadata,
    # Hours first, so that new rows are written in one place, and old rows deleted in one.
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("allocation", String, primary_key=True),
    Column("device", String, primary_key=True),
    Column("used_ms", Integer, nullable=False),
    Column("idle_ms", Integer, nullable=False),
    Column("energy_mj", Integer),
    Column("memory_most_mib", Integer),
    sqlite_with_rowid=False,
)
_ROWS_AT_ONCE = 2000
_HOURS_A_QUESTION = 500


class MeterTable:
    """Adds to the rows and reads them. Every call raises BackendFailed if the disk fails or is full."""

    def __init__(self, file: HistoryFile) -> None:
        self._file = file

    def add(self, rows: Sequence[MeteredHour]) -> None:
        """Add the measurements to those of the same hour, allocation and device; all or none."""
        if rows:
            with self._connection() as connection:
                connection.execute(_ADD, [dict(zip(_metered.c.keys(), row, strict=True)) for row in rows])

    def rows(self, first_hour: int, last_hour: int) -> Iterator[list[MeteredHour]]:
        """Yield the rows of the hours from the first to the last, as of the moment when the first batch is taken."""
        yield from self._read([select(_metered).where(_metered.c.hour.between(first_hour, last_hour))])

    def rows_of(self, allocations: Collection[str], hours: Sequence[int]) -> Iterator[list[MeteredHour]]:
        """Yield the rows of these allocations and hours."""
        yield from self._read(
            select(_metered).where(
                _metered.c.hour.in_(hours[start : start + _HOURS_A_QUESTION]), _metered.c.allocation.in_(allocations)
            )
            for start in range(0, len(hours), _HOURS_A_QUESTION)
        )

    def forget(self, before_hour: int) -> None:
        """Delete the hours before this one."""
        with self._connection() as connection:
            connection.execute(delete(_metered).where(_metered.c.hour < before_hour))

    def _read(self, questions: Iterable[Select[tuple[Row[tuple[object, ...]]]]]) -> Iterator[list[MeteredHour]]:
        with self._connection() as connection:
            for question in questions:
                for part in connection.execute(question.where(_READABLE)).partitions(_ROWS_AT_ONCE):
                    yield [MeteredHour._make(row) for row in part]

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with self._file.connection() as connection:
            # The file may be new each time: it may have been lost.
            _metadata.create_all(connection)
            yield connection


_READABLE = and_(
    *(func.typeof(_metered.c[name]) == "integer" for name in ("used_ms", "idle_ms")),
    *(func.typeof(_metered.c[name]).in_(("integer", "null")) for name in ("energy_mj", "memory_most_mib")),
)
"""A damaged row is ignored: its time is unmetered."""

_add = insert(_metered)
_new = _add.excluded
_memory, _energy = _metered.c.memory_most_mib, _metered.c.energy_mj
_ADD = _add.on_conflict_do_update(
    index_elements=["hour", "allocation", "device"],
    set_={
        "used_ms": _metered.c.used_ms + _new.used_ms,
        "idle_ms": _metered.c.idle_ms + _new.idle_ms,
        "energy_mj": case((_new.energy_mj.is_(None), _energy), else_=func.coalesce(_energy, 0) + _new.energy_mj),
        "memory_most_mib": func.max(
            func.coalesce(_memory, _new.memory_most_mib), func.coalesce(_new.memory_most_mib, _memory)
        ),
    },
)
