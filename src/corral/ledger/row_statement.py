"""Statements that are run with many rows: made into SQL once."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.sql import Delete, Insert, Update


class RowStatement:
    """A statement whose values all come from rows. To have SQLAlchemy look at each row takes as long as to write it."""

    def __init__(self, statement: Insert | Update | Delete, values: Sequence[str] | None = None) -> None:
        """`values` are the columns that are written; None is all of them."""
        named = dialect(paramstyle="named")
        self._sql = str(statement.compile(dialect=named, column_keys=None if values is None else [*values]))

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run it with each of the rows, which have all values by name. Nothing is done without rows."""
        if rows:
            connection.exec_driver_sql(self._sql, [*rows])
