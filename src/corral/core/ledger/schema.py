"""Prepare the tables of this version: make them in a new file, migrate an older file, refuse any other."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, inspect

from corral.core.ledger import tables
from corral.core.ledger.database import Database, damaged
from corral.core.model.errors import LedgerFailed

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent / "migrations"

OLDEST_COMMIT = "eb36f5f9"
"""The oldest version whose homes this one can use. That version migrates the homes of all earlier ones."""


def prepare(database: Database, before_making: Callable[[], None] = lambda: None) -> None:
    """Make or migrate the tables, in one transaction.

    `before_making` is called if there are no tables at all. Nothing is made if it raises. Raises LedgerFailed if the
    file is not a ledger, or is of a newer or a far older version.
    """
    with database.reading() as connection:
        found = revision(connection)
        empty = found is None and not inspect(connection).get_table_names()
    if found == tables.REVISION:
        return
    if empty:
        before_making()
    with database.writing() as connection:
        if empty:
            tables.metadata.create_all(connection)
            connection.execute(insert(tables.meta), {"name": tables.NEXT_ID, "value": 1})
            connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
            connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{tables.REVISION}')")
        elif found is None:
            raise LedgerFailed(
                f"{database.path} is a database but no ledger of Corral's; "
                "put the ledger back in its place, or begin with an empty one: `corral up --anew` moves this one aside"
            )
        else:
            migrate(connection, database.path, found)


def revision(connection: Connection) -> str | None:
    """The last migration of the database, None if it is not a ledger."""
    known = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE name = 'alembic_version'").first()
    if known is None:
        return None
    return str(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() or "")


def unknown_format(path: Path, found: str) -> str | None:
    """The reason why this version cannot serve a ledger of the format `found`; None if it can, at least after a
    migration.
    """
    if found == tables.REVISION:
        return None
    from alembic.script import ScriptDirectory

    known = [script.revision for script in ScriptDirectory.from_config(_migrations()).walk_revisions()]
    if found in known:
        return None
    if not (found.isdecimal() and len(found) == len(tables.REVISION) and int(found)):
        return damaged(path, f"its format is {found!r:.40}, which no version of Corral has written")
    if found < known[-1]:
        return (
            f"the ledger {path} is of format {found}, and this version of Corral migrates those from {known[-1]} on; "
            f"install commit {OLDEST_COMMIT} first (git checkout {OLDEST_COMMIT}) and start its server once on this "
            "home, or begin with an empty ledger: `corral up --anew` moves this one aside"
        )
    return (
        f"the ledger {path} was written by a newer Corral (its format is {found}, this one knows up to "
        f"{tables.REVISION}); install that version again, or put a backup from before it in its place"
    )


def migrate(connection: Connection, path: Path, found: str | None) -> None:
    """Run the migrations after `found`, in the caller's transaction; None means all of them."""
    from alembic import command

    unknown = None if found is None else unknown_format(path, found)
    if unknown is not None:
        raise LedgerFailed(unknown)
    config = _migrations()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _migrations() -> "Config":
    # Importing Alembic costs 0.1 s and 12 MiB: a server without a migration to run should not pay that.
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config
