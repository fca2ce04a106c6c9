"""Statements that run with many rows, and are compiled to SQL only once."""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.sql import Delete, Insert, Update

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
