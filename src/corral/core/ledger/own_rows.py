"""The port through which a feature keeps a table of its own in the ledger."""

from collections.abc import Mapping
from typing import Any, Protocol

from sqlalchemy import Connection, Table

from corral.core.ledger.table_rows import Row
from corral.core.model.fact import Fact


class OwnRows(Protocol):
    """What facts make of the table: those of a batch, or of a whole journal.

    Attributes:
        table, key: the table, and the name of its key.
        rows: those that facts made or changed, and that are still there, by their key.
    """

    table: Table
    key: str
    rows: Mapping[Any, Row]

    def add(self, fact: Fact) -> None:
        """Take in one more fact."""
        ...

    def write(self, connection: Connection) -> None:
        """Bring the table to where the facts lead, in the transaction that writes them."""
        ...
