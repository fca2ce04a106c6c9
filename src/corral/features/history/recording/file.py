"""The database of the history: blocks of roll-ups by device, level and time, in one SQLite file that may be lost."""

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    select,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import SQLAlchemyError

from corral.core.model.errors import BackendFailed

logger = logging.getLogger(__name__)

_FORMAT = 2
"""The PRAGMA user_version of files that this version reads. A file of another format is moved away."""

_BUSY_TIMEOUT_S = 5.0
_DAMAGED = ("SQLITE_NOTADB", "SQLITE_CORRUPT")

_metadata = MetaData()
_blocks = Table(
    "blocks",
    _metadata,
    Column("device", String, primary_key=True),
    Column("step_s", Integer, primary_key=True),
    Column("start", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
_known = Table(
    "known",
    _metadata,
    Column("name", String, primary_key=True),
    Column("number", Integer, nullable=False),
)
"""The highest number of a job with history. `corral.host.traces` reads it without looking at any block."""
# Made once: building the statement takes longer than answering it.
_BETWEEN = (
    select(_blocks.c.start, _blocks.c.data)
    .where(
        _blocks.c.device == bindparam("device"),
        _blocks.c.step_s == bindparam("step_s"),
        _blocks.c.start.between(bindparam("first"), bindparam("last")),
    )
    .order_by(_blocks.c.start)
)


_KNOW = insert(_known)
_KNOW = _KNOW.on_conflict_do_update(
    index_elements=["name"], set_={"number": func.max(_known.c.number, _KNOW.excluded.number)}
)


class Block(NamedTuple):
    """The packed roll-ups of one device at one level, from `start` (Unix seconds) on."""

    device: str
    step_s: int
    start: int
    data: bytes


class HistoryFile:
    """The file, made on first use. A damaged or missing file is begun anew; a damaged one is moved aside.

    Every call raises BackendFailed if the disk fails or is full, and then nothing was written. Safe between threads.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine: Engine | None = None
        self._inode: int | None = None
        self._opening = threading.RLock()

    def blocks(self, device: str, step_s: int, first: int, last: int) -> list[tuple[int, bytes]]:
        """The start and the data of each block of a device and level that starts from `first` to `last`."""
        wanted = {"device": device, "step_s": step_s, "first": first, "last": last}
        with self.connection() as connection:
            rows = connection.execute(_BETWEEN, wanted)
            # A damaged row without bytes counts as an unreadable block.
            return [(int(start), data if isinstance(data, bytes) else b"") for start, data in rows]

    def knows(self, device: str) -> bool:
        """Return whether the file has anything about this device."""
        wanted = select(_blocks.c.device).where(_blocks.c.device == device).limit(1)
        with self.connection() as connection:
            return connection.execute(wanted).first() is not None

    def write(self, blocks: Sequence[Block], highest_job: int = 0) -> None:
        """Write these blocks, of jobs up to this number, in place of those that there were; all or none."""
        if not blocks:
            return
        statement = insert(_blocks)
        statement = statement.on_conflict_do_update(
            index_elements=["device", "step_s", "start"], set_={"data": statement.excluded.data}
        )
        with self.connection() as connection:
            connection.execute(statement, [block._asdict() for block in blocks])
            if highest_job:
                connection.execute(_KNOW, {"name": "highest_job", "number": highest_job})

    def forget(self, ends: Iterable[tuple[int, int]], others: Sequence[int]) -> None:
        """Delete, for each level (`step_s`), blocks that start before a time, and all levels that are not among
        `others`.
        """
        with self.connection() as connection:
            for step_s, before in ends:
                connection.execute(delete(_blocks).where(_blocks.c.step_s == step_s, _blocks.c.start < before))
            connection.execute(delete(_blocks).where(_blocks.c.step_s.not_in(others)))

    def size(self) -> int:
        """Return the number of blocks."""
        with self.connection() as connection:
            return int(connection.execute(select(func.count()).select_from(_blocks)).scalar_one())

    def close(self) -> None:
        """Close every connection."""
        with self._opening:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A transaction on the file, for other tables in it."""
        try:
            with self._opened().begin() as connection:
                yield connection
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            cause = getattr(error, "orig", None) or error
            if str(getattr(cause, "sqlite_errorname", "")).startswith(_DAMAGED):
                # If that fails, the next call finds the same file and tries again.
                with contextlib.suppress(OSError):
                    self._move_away(f"is damaged ({cause})")
            raise BackendFailed(f"{self.path}: {cause}") from error

    def _opened(self) -> Engine:
        """Return the engine of the current file. A file that was deleted or replaced meanwhile is opened again."""
        with self._opening:
            return self._open()

    def _open(self) -> Engine:
        with contextlib.suppress(FileNotFoundError):
            if self._engine is not None and self.path.stat().st_ino == self._inode:
                return self._engine
        self.close()
        # Readable by its owner alone, as the ledger is.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        engine = _engine(self.path)
        try:
            with engine.begin() as connection:
                found = connection.exec_driver_sql("PRAGMA user_version").scalar()
                if found in (0, _FORMAT):
                    _metadata.create_all(connection)
                    connection.exec_driver_sql(f"PRAGMA user_version = {_FORMAT}")
        except SQLAlchemyError:
            engine.dispose()
            raise
        if found not in (0, _FORMAT):
            engine.dispose()
            self._move_away(f"has the format {found} of another version")
            return self._open()
        self._engine, self._inode = engine, self.path.stat().st_ino
        return engine

    def _move_away(self, why: str) -> None:
        self.close()
        aside = self.path.with_name(f"{self.path.name}.damaged")
        self.path.replace(aside)
        for ending in ("-wal", "-shm"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        logger.warning("the history %s %s; it was moved to %s, and a new one is begun", self.path, why, aside)


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", pool_size=2, connect_args={"timeout": _BUSY_TIMEOUT_S})

    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _record: Any) -> None:
        # A crash of the machine may lose the last minutes. That loss is not worth an fsync.
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "journal_size_limit=16777216", "cache_size=-1024"):
            connection.execute(f"PRAGMA {pragma}")

    return engine
