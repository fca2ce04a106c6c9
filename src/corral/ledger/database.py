"""Connections to the database: how they are set up, and what their errors mean to a person."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    ProgrammingError,
    SQLAlchemyError,
)

from corral.model.errors import LedgerFailed, Refused

BUSY_TIMEOUT_S = 5.0
"""How long a statement waits for a lock of another process; `?timeout=` in the URL overrides it."""

CHECKPOINT_PAGES = 4_000
"""Pages (4 KiB each) in the write-ahead log before a commit must fold it into the database, which a writer feels."""

READERS_KEPT = 4
READERS_AT_ONCE = 64


class RowsRefused(LedgerFailed):
    """The database works but does not take these rows: a value it cannot hold, or a key that is there already."""


class Database:
    """One SQLite file by URL, with an engine for the one writer and another for any number of readers.

    Two engines, since they begin differently: a writer takes the lock at once, so that it can wait for it.
    """

    def __init__(self, url: str) -> None:
        self._url = _checked(url)
        self.path = Path(str(self._url.database))
        self._writer = self._engine("BEGIN IMMEDIATE", _WRITER_PRAGMAS, pool_size=1, max_overflow=0)
        self._readers = self._engine(
            "BEGIN", _READER_PRAGMAS, pool_size=READERS_KEPT, max_overflow=READERS_AT_ONCE - READERS_KEPT
        )

    def create(self) -> None:
        """Make the file if there is none, readable by its owner alone: it holds the environments of jobs."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except FileNotFoundError:
            raise LedgerFailed(
                f"the ledger cannot be opened: its directory {self.path.parent} does not exist; "
                f"make it with 'mkdir -p {self.path.parent}', or name another place"
            ) from None
        except OSError as error:
            raise LedgerFailed(
                f"the ledger {self.path} cannot be opened for writing: {error.strerror}; "
                "make it a file that this user may read and write, or name another place"
            ) from None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that commits on leaving. Raises LedgerFailed, and then nothing was written."""
        with self._explained(), self._writer.begin() as connection:
            try:
                yield connection
            except (OverflowError, UnicodeEncodeError) as error:
                raise RowsRefused(f"the ledger {self.path} cannot hold this: {error}; nothing was written") from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database throughout.

        Raises LedgerFailed, and Refused for a question with values that no row can have.
        """
        with self._explained(), self._readers.connect() as connection:
            try:
                yield connection
            except (OverflowError, UnicodeEncodeError) as error:
                raise Refused(f"the ledger holds nothing like this: {error}") from error

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the database, as far as readers let it."""
        with self._explained(), self._writer.connect() as connection:
            raw = connection.connection.dbapi_connection
            assert raw is not None
            raw.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        """Close every connection that is not in use; the last one folds the write-ahead log."""
        self._readers.dispose()
        self._writer.dispose()

    def _engine(self, begin: str, pragmas: tuple[str, ...], *, pool_size: int, max_overflow: int) -> Engine:
        timeout = {} if "timeout" in self._url.query else {"timeout": BUSY_TIMEOUT_S}
        engine = create_engine(self._url, pool_size=pool_size, max_overflow=max_overflow, connect_args=timeout)

        @event.listens_for(engine, "connect")
        def _set_up(connection: Any, _record: Any) -> None:
            # The driver would begin transactions by itself, later than needed and without IMMEDIATE.
            connection.isolation_level = None
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}")

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            # Not through SQLAlchemy, which takes longer over it than SQLite does.
            raw = connection.connection.dbapi_connection
            assert raw is not None
            raw.cursor().execute(begin)

        return engine

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            cause = error.orig if isinstance(error.orig, Exception) else error
            refused = isinstance(error, (DataError, IntegrityError, InterfaceError, ProgrammingError))
            raise (RowsRefused if refused else LedgerFailed)(_explanation(cause, self.path)) from error
        except sqlite3.Error as error:
            raise LedgerFailed(_explanation(error, self.path)) from error
        except SQLAlchemyError as error:
            raise LedgerFailed(f"the ledger {self.path} cannot be used: {error}") from error


_WRITER_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    f"wal_autocheckpoint={CHECKPOINT_PAGES}",
    "journal_size_limit=67108864",
)
_READER_PRAGMAS = ("query_only=ON", "cache_size=-1024")


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise LedgerFailed(
            f"{url!r} is not a database URL; write one such as sqlite:////var/lib/corral/ledger.db"
        ) from None
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        raise LedgerFailed(
            f"the ledger cannot be kept at {parsed.render_as_string()}: it needs an SQLite file, "
            "written like sqlite:////var/lib/corral/ledger.db"
        )
    return parsed


def _explanation(error: Exception, path: Path) -> str:
    """What went wrong, why, and what to do next."""
    name = str(getattr(error, "sqlite_errorname", ""))
    detail = f"{error}".rstrip(".")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return (
            f"the ledger {path} is locked by another process, and it was not released in time; "
            f"nothing was written. 'fuser {path}' names the process: end it, then try again"
        )
    if name.startswith("SQLITE_FULL"):
        full = f"the disk that holds the ledger {path} is full{_inodes(path)}"
        return f"{full}; nothing was written. Free some space, then try again"
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return (
            f"the ledger {path} is damaged ({detail}). Stop the server and put a backup in its place, "
            "or move the file away to start with an empty ledger"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR")) and _is_read_only(path):
        return (
            f"the ledger {path} is on a read-only file system; nothing was written. "
            "Find out why (dmesg), mount it for writing again, then try again"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN", "SQLITE_AUTH")):
        return (
            f"the ledger {path} cannot be opened for writing ({detail}); this user must be able to write the file "
            f"and its directory {path.parent}"
        )
    if name.startswith("SQLITE_IOERR"):
        return (
            f"the disk failed under the ledger {path} ({detail}); nothing was written. "
            "Look for free space, quotas and disk errors (dmesg), then try again"
        )
    if name.startswith("SQLITE_CONSTRAINT") and "journal.sequence" in detail:
        return (
            f"the ledger {path} holds rows that this server did not write ({detail}); nothing was written. "
            "If another server uses the same file, stop one of them; then restart this one"
        )
    return f"the ledger {path} failed: {detail}; nothing was written"


def _is_read_only(path: Path) -> bool:
    try:
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _inodes(path: Path) -> str:
    try:
        status = os.statvfs(path.parent)
    except OSError:
        return ""
    return " (it has no inodes left)" if status.f_files and not status.f_favail else ""
