"""New, old, newer and foreign databases."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from corral.core.ledger import tables
from corral.core.ledger.database import Database
from corral.core.ledger.fold import check
from corral.core.ledger.schema import MIGRATIONS, migrate, prepare, revision
from corral.core.ledger.store import open_ledger
from corral.core.model.errors import LedgerFailed
from tests.core.ledger.making import url_of


def schema_of(path: Path) -> list[tuple[str, ...]]:
    """Every table with its columns as SQLite has them, and every index."""
    with closing(sqlite3.connect(path)) as raw:
        names = [row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        columns = [(name, *map(str, row)) for name in names for row in raw.execute(f"PRAGMA table_info({name})")]
        indices = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name").fetchall()
        return columns + indices


@pytest.mark.filterwarnings("ignore:.*expression-based index")  # which the schemas are compared for below
def test_the_migrations_lead_to_the_tables_that_a_new_ledger_gets(tmp_path: Path) -> None:
    made, migrated = Database(f"sqlite:///{tmp_path / 'made.db'}"), Database(f"sqlite:///{tmp_path / 'migrated.db'}")
    for database in (made, migrated):
        database.create()
    prepare(made)
    with migrated.writing() as connection:
        migrate(connection, migrated.path, None)
        assert revision(connection) == tables.REVISION
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
    assert schema_of(migrated.path) == schema_of(made.path)
    made.close()
    migrated.close()


@pytest.mark.parametrize("found", ["0001", "0006", "0010"])
def test_a_ledger_of_a_far_older_version_is_refused_and_untouched_and_it_is_told_what_to_do(
    tmp_path: Path, found: str
) -> None:
    open_ledger(url_of(tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = ?", (found,))
    with pytest.raises(LedgerFailed, match=rf"of format {found}, .* from 0011 on; install commit eb36f5f9 .*--anew"):
        open_ledger(url_of(tmp_path))
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw:
        assert raw.execute("SELECT version_num FROM alembic_version").fetchall() == [(found,)]


def test_the_newest_migration_is_the_one_the_code_expects() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == tables.REVISION


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    database = Database(url_of(tmp_path))
    database.create()
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE journal (mine INTEGER)")
    before = schema_of(database.path)
    with pytest.raises(LedgerFailed, match="already exists"), database.writing() as connection:
        migrate(connection, database.path, None)
    assert schema_of(database.path) == before
    database.close()


def test_a_ledger_of_a_newer_version_is_refused_and_untouched(tmp_path: Path) -> None:
    open_ledger(url_of(tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(LedgerFailed, match=rf"newer Corral .*9999.*{tables.REVISION}"):
        open_ledger(url_of(tmp_path))
    with pytest.raises(LedgerFailed, match="format 9999"):
        check(url_of(tmp_path))


def test_the_database_of_another_program_is_refused_and_untouched(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw, raw:
        raw.execute("CREATE TABLE songs (title TEXT)")
    before = schema_of(tmp_path / "ledger.db")
    with pytest.raises(LedgerFailed, match="no ledger of Corral's"):
        open_ledger(url_of(tmp_path))
    assert schema_of(tmp_path / "ledger.db") == before


def test_a_server_that_need_not_migrate_never_loads_alembic(tmp_path: Path) -> None:
    script = (
        "import sys; from corral.core.ledger.store import open_ledger\n"
        "for _ in range(2): open_ledger(sys.argv[1]).close()\n"
        "sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script, url_of(tmp_path)], timeout=100).returncode == 0
