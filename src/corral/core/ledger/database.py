"""Connections to the database: their setup, and messages that explain their errors to a person."""

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

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

from corral.core.ledger.file_watch import BESIDE, FileWatch, LedgerLost, lost
from corral.core.model.errors import LedgerFailed, Refused

BUSY_TIMEOUT_S = 5.0
"""The longest wait of a statement for a lock of another process. `?timeout=` in the URL overrides it."""

CHECKPOINT_PAGES = 4_000
"""The pages (4 KiB each) in the write-ahead log after which a commit, noticeably slower, folds it into the database."""

_HEADER_BYTES = 100

_log = logging.getLogger(__name__)

READERS_KEPT = 4
READERS_AT_ONCE = 64


class RowsRefused(LedgerFailed):
    """The database works but does not take these rows: a value it cannot hold, or a key that is there already."""


class Database:
    """One SQLite file by URL, with an engine for the one writer and another for any number of readers.

    There are two engines because their transactions begin differently: a writer takes the lock at once, so that it can
    wait for the lock.

    Attributes:
        lost: what happened to its files, once `watch` has found them moved, removed or overwritten. Nothing can be
            written from then on. None while the files are in place.
    """

    def __init__(self, url: str) -> None:
        self._url = _checked(url)
        self.path = Path(str(self._url.database))
        self.lost: str | None = None
        self._watch: FileWatch | None = None
        self._anchor: Connection | None = None
        self._newest: Callable[[], int] = lambda: 0
        self._writing = threading.Lock()
        self._writer = self._engine("BEGIN IMMEDIATE", _WRITER_PRAGMAS, pool_size=1, max_overflow=0)
        self._readers = self._engine(
            "BEGIN", _READER_PRAGMAS, pool_size=READERS_KEPT, max_overflow=READERS_AT_ONCE - READERS_KEPT
        )

    def has_content(self) -> bool:
        """Whether the file exists and is not empty. Opening an empty file would remove the log beside it."""
        try:
            return self.path.stat().st_size > 0
        except OSError:
            # The error is reported later, when the file is opened.
            return os.path.lexists(self.path)

    def create(self) -> None:
        """Make the file if there is none, readable by its owner alone, because it holds the environments of jobs.

        Raises LedgerFailed if the file is a symbolic link, cannot be opened for writing, or was cut short.
        """
        if self.path.is_symlink():
            raise LedgerFailed(
                f"the ledger {self.path} is a symbolic link to {os.readlink(self.path)}, beside which nobody looks "
                "for its write-ahead log; put the file itself there, or make its directory the link"
            )
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                short = _cut_short(os.pread(fd, _HEADER_BYTES, 0), os.fstat(fd).st_size)
            finally:
                os.close(fd)
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
        # The missing part may be in the write-ahead log, if there is one.
        if short is not None and not _size(f"{self.path}-wal"):
            raise LedgerFailed(damaged(self.path, short))

    def watch(self, newest: Callable[[], int]) -> None:
        """Begin to watch the files: from now on they must stay in place. `newest` is the sequence of the newest entry.

        Raises LedgerFailed.
        """
        with self._explained():
            # This connection is outside the pools, whose connections come and go. With the last connection the
            # write-ahead log would be removed too.
            self._anchor = self._readers.connect()
            self._anchor.exec_driver_sql("SELECT 1 FROM sqlite_master")
            self._anchor.rollback()
            self._anchor.detach()
        watch = FileWatch(self.path)
        try:
            watch.begin()
        except OSError as error:
            watch.close()
            raise LedgerFailed(f"the ledger {error.filename} cannot be looked at: {error.strerror}") from error
        self._watch, self._newest = watch, newest

    def look(self) -> None:
        """Check that the files are in place. Raises LedgerLost if not, and LedgerFailed if that cannot be checked."""
        with self._writing:
            self._require_files()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that commits on leaving.

        Raises LedgerFailed if nothing was written. Raises LedgerLost if the next server will not find the written rows.
        """
        with self._writing:
            self._require_files()
            with self._explained(), self._writer.begin() as connection:
                try:
                    yield connection
                except (OverflowError, UnicodeEncodeError) as error:
                    raise RowsRefused(
                        f"the ledger {self.path} cannot hold this: {error}; nothing was written"
                    ) from error
            self._written()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database throughout.

        Raises LedgerFailed, and Refused if the question contains values that no row can have.
        """
        with self._explained(), self._readers.connect() as connection:
            try:
                yield connection
            except (OverflowError, UnicodeEncodeError) as error:
                raise Refused(f"the ledger holds nothing like this: {error}") from error

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the database, as far as readers let it."""
        with self._writing:
            self._require_files()
            with self._explained(), self._writer.connect() as connection:
                _raw(connection).execute("PRAGMA wal_checkpoint(PASSIVE)")
            self._written()

    def close(self) -> None:
        """Close every connection that is not in use; the last one folds the write-ahead log."""
        watch, self._watch = self._watch, None
        if watch is not None and watch.stays_open:
            return
        if self._anchor is not None:
            self._anchor.close()
        self._readers.dispose()
        self._writer.dispose()
        if watch is not None:
            watch.close()

    def _written(self) -> None:
        """Check that the next server will find the rows just written. Raises LedgerLost, and nothing else.

        If the check is not possible, the rows count as written: data on disk must not be reported as unwritten. The
        next write checks first. If it finds the files displaced, these rows are in the data that is saved then.
        """
        if self._watch is None:
            return
        try:
            self._watch.left()
            self._require_files()
        except LedgerLost:
            raise
        except (LedgerFailed, OSError) as error:
            _log.warning("the last transaction is on disk, but an error followed: %s", error)

    def _require_files(self) -> None:
        if self.lost is None and self._watch is not None:
            what = self._watch.displaced()
            if what is not None:
                assert self._anchor is not None
                self.lost = lost(what, self._watch.rescue(_raw(self._anchor)))
            elif self._watch.touched():
                self._judge_the_touch(self._watch)
        if self.lost is not None:
            raise LedgerLost(self.lost)

    def _judge_the_touch(self, watch: FileWatch) -> None:
        if not watch.cut() and self._is_whole():
            watch.left()
        else:
            what = f"another program has written to the ledger {self.path} while the server ran"
            self.lost = lost(what, watch.overwritten())

    def _is_whole(self) -> bool:
        """Whether another process has only folded the write-ahead log. The check may take long."""
        # Other connections may have cached pages that are in no file any more.
        self._readers.dispose()
        try:
            with self.reading() as connection:
                newest = connection.exec_driver_sql("SELECT coalesce(max(sequence), 0) FROM journal").scalar()
                sound = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        except LedgerFailed:
            return False
        return sound == "ok" and newest == self._newest()

    def _engine(self, begin: str, pragmas: tuple[str, ...], *, pool_size: int, max_overflow: int) -> Engine:
        timeout = {} if "timeout" in self._url.query else {"timeout": BUSY_TIMEOUT_S}
        # A connection must never create the file: a missing file has to be noticed.
        query = {**self._url.query, "mode": "rw", "uri": "true"}
        url = self._url.set(database=f"file:{quote(str(self._url.database))}", query=query)
        engine = create_engine(url, pool_size=pool_size, max_overflow=max_overflow, connect_args=timeout)

        @event.listens_for(engine, "connect")
        def _set_up(connection: Any, _record: Any) -> None:
            if self._watch is not None and (what := self._watch.displaced()) is not None:
                connection.close()
                raise LedgerFailed(what)
            # By default, the driver begins transactions by itself, later than needed and without IMMEDIATE.
            connection.isolation_level = None
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}")

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            # SQLAlchemy is avoided here: its own work takes longer than that of SQLite.
            _raw(connection).execute(begin)

        return engine

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            cause = error.orig if isinstance(error.orig, Exception) else error
            refused = isinstance(error, (DataError, IntegrityError, InterfaceError, ProgrammingError))
            raise (RowsRefused if refused else LedgerFailed)(_explanation(cause, self.path)) from error
        except UnicodeDecodeError as error:
            # SQLite's message about damaged tables may contain bytes that are not UTF-8.
            raise LedgerFailed(damaged(self.path, ascii(bytes(error.object))[2:-1])) from error
        except sqlite3.Error as error:
            raise LedgerFailed(_explanation(error, self.path)) from error
        except SQLAlchemyError as error:
            raise LedgerFailed(f"the ledger {self.path} cannot be used: {error}") from error


def _raw(connection: Connection) -> sqlite3.Connection:
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


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


def damaged(path: Path, detail: str) -> str:
    """The message that the file is damaged: the evidence (`detail`), and what to do."""
    return (
        f"the ledger {path} is damaged ({detail}). Stop the server and put a backup in its place (docs/install.md, "
        "Restore from a backup), or begin with an empty one: `corral up --anew` moves this one aside"
    )


def _cut_short(head: bytes, size: int) -> str | None:
    """A message on how much shorter a file with this head is than its own header says; None if it is not shorter.

    The header has the page size, the number of pages, and whether that number is valid
    (https://www.sqlite.org/fileformat.html, 1.3).
    """
    if not head.startswith(b"SQLite format 3\0") or len(head) < _HEADER_BYTES or head[24:28] != head[92:96]:
        return None
    page_bytes = int.from_bytes(head[16:18], "big")
    whole = (65536 if page_bytes == 1 else page_bytes) * int.from_bytes(head[28:32], "big")
    return f"it was cut short: {size} of {whole} bytes are left" if size < whole else None


def _explanation(error: Exception, path: Path) -> str:
    """The message for an error: what went wrong, why, and what to do next."""
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
    if name.startswith("SQLITE_CANTOPEN") and not path.exists():
        return (
            f"the ledger {path} is not there: it was moved or removed, or its disk is gone. "
            f"Put it back, together with {path.name}-wal if there is one, then start the server again"
        )
    # The statements are always the same, so a missing table or invalid text is not their fault: the file is damaged.
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_FORMAT")) or not name:
        return damaged(path, detail)
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR")) and _is_read_only(path):
        return (
            f"the ledger {path} is on a read-only file system; nothing was written. "
            "Find out why (dmesg), mount it for writing again, then try again"
        )
    beside = _unusable_beside(path) if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR")) else None
    if beside is not None:
        return (
            f"the ledger {path} cannot be opened: {beside} ({detail}). It may have what was written last: "
            "make it a file that this user may write, or move it away if it is not the ledger's own"
        )
    if name == "SQLITE_READONLY" and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return damaged(path, f"{detail}, and this user may write it: its first bytes are not as they were")
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


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _unusable_beside(path: Path) -> str | None:
    """A message on why this user cannot use the log or its index; None if both are usable or absent."""
    for ending in BESIDE:
        beside = Path(f"{path}{ending}")
        if os.path.lexists(beside) and not beside.is_file():
            return f"{beside} is not a file"
        if beside.exists() and not os.access(beside, os.R_OK | os.W_OK):
            return f"{beside} cannot be written by this user"
    return None


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
