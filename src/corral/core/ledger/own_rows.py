"""The port through which a feature keeps a table of its own in the ledger."""

from collections.abc import Mapping
from typing import Any, Protocol

from sqlalchemy import Connection, Table

from corral.core.ledger.table_rows import Row
from corral.core.model.fact import Fact


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
