"""A watch over the files of an open ledger: are they still in place, and what can be saved if they are not?

SQLite continues to write to a file that was moved or removed, and reports nothing. Data acknowledged then would be lost
with the process. So the files are checked before anything is acknowledged. A check costs a few calls of stat(2).
"""

import errno
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from corral.core.model.errors import LedgerFailed

BESIDE = ("-wal", "-shm")
"""Endings of the log and its index. Without these two files, the next server does not find the rows written last."""

_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
_ENDS = "nothing is accepted any more, and the server ends; its jobs run on"


class LedgerLost(LedgerFailed):
    """The files are not the server's any more. The message says what happened, what was saved, and what to do."""


class FileWatch:
    """The files of one open database. Call `begin` once it has connections. For one thread at a time.

    Attributes:
        stays_open: the last connection must not be closed, because that would fold its log into a file of another
            program.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # The descriptor stays open as long as the database: closing it would drop the locks on the file.
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._beside: dict[str, os.stat_result] = {}
        self._log_fd: int | None = None
        self._as_left: tuple[int, int] | None = None
        self._log_bytes = 0
        self.stays_open = False

    def begin(self) -> None:
        """Record the files as they are now. Raises OSError."""
        self._beside = {ending: os.lstat(f"{self._path}{ending}") for ending in BESIDE}
        self._log_fd = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.left()

    def left(self) -> None:
        """Record the file's state after a write by this process. Each commit may write."""
        found = os.fstat(self._fd)
        self._as_left = found.st_mtime_ns, found.st_size
        self._log_bytes = self._log_size()

    def touched(self) -> bool:
        """Whether another process has written to the file, or cut its log, since the last call of `left`."""
        found = os.fstat(self._fd)
        return (found.st_mtime_ns, found.st_size) != self._as_left or self._log_size() < self._log_bytes

    def cut(self) -> bool:
        """Whether the file is shorter than at the last call of `left`. Then the log does not have all lost data."""
        return self._as_left is not None and os.fstat(self._fd).st_size < self._as_left[1]

    def displaced(self) -> str | None:
        """A sentence on what happened to a file that is not in place; None while all files are in place. Raises
        LedgerFailed.
        """
        if not self._is_there("", os.fstat(self._fd)):
            return self._what_became_of_it()
        for ending, opened in self._beside.items():
            if not self._is_there(ending, opened):
                return f"{self._path}{ending} was removed or replaced while the server ran"
        return None

    def rescue(self, connection: sqlite3.Connection) -> str:
        """Save all acknowledged data in one file, as far as possible. Return a sentence on what to do next."""
        try:
            return self._rescued(connection)
        except (LedgerFailed, OSError) as error:
            return self._left_as_it_is(error)

    def _rescued(self, connection: sqlite3.Connection) -> str:
        if not os.fstat(self._fd).st_nlink:
            return self._saved(connection)
        try:
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error:
            busy = 1
        if not busy:
            self._remove_log()
        where = self._now_at()
        if where == str(self._path):
            return "All that was acknowledged is in it: start the server again"
        log = f", beside {self._path}-wal, which has a part of it," if busy else ""
        return f"All that was acknowledged is there: move it back to {self._path}{log} and start the server again"

    def overwritten(self) -> str:
        """Keep the write-ahead log away from the data that another process wrote. Return a sentence on what to do."""
        self.stays_open = True
        try:
            self._set_log_aside()
        except (LedgerFailed, OSError) as error:
            return self._left_as_it_is(error)
        return (
            "Put a backup in its place, and start the server again (docs/install.md, Restore from a backup); "
            "what was acknowledged after it was made is lost"
        )

    def close(self) -> None:
        """Close the descriptors. Call this once the database has no connection any more."""
        os.close(self._fd)
        if self._log_fd is not None:
            os.close(self._log_fd)

    def _log_size(self) -> int:
        return 0 if self._log_fd is None else os.fstat(self._log_fd).st_size

    def _left_as_it_is(self, error: Exception) -> str:
        self.stays_open = True
        return (
            f"What was acknowledged could not be saved ({error}). Keep copies of {self._path}, {self._path}-wal "
            f"and any {self._path}.saved-*: it may be in one of them. Then put a backup "
            "in its place, without that -wal, and start the server again (docs/install.md, Restore from a backup)"
        )

    def _is_there(self, ending: str, opened: os.stat_result) -> bool:
        try:
            # A symbolic link does not count as the file: SQLite would look for the log beside the link's target.
            return os.path.samestat(os.lstat(f"{self._path}{ending}"), opened)
        except OSError as error:
            if error.errno in _GONE:
                return False
            raise LedgerFailed(
                f"the ledger {self._path}{ending} cannot be looked at: {error.strerror}; nothing is accepted meanwhile"
            ) from None

    def _what_became_of_it(self) -> str:
        if os.fstat(self._fd).st_nlink:
            return f"the ledger {self._path} was moved to {self._now_at()} while the server ran"
        there = "another file is in its place" if self._path.exists() else "it is in no directory any more"
        return f"the ledger {self._path} was removed while the server ran ({there})"

    def _now_at(self) -> str:
        return os.readlink(f"/proc/self/fd/{self._fd}")

    def _saved(self, connection: sqlite3.Connection) -> str:
        copy = Path(f"{self._path}.saved-{time.time_ns()}")
        try:
            os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            with closing(sqlite3.connect(copy)) as saved:
                connection.backup(saved)
        except (OSError, sqlite3.Error) as error:
            self._set_log_aside()
            return (
                f"All that was acknowledged could not be saved to {copy} ({error}). Put a backup in its place, and "
                "start the server again (docs/install.md, Restore from a backup)"
            )
        self._remove_log()
        return f"All that was acknowledged is in {copy}: move that to {self._path}, and start the server again"

    def _set_log_aside(self) -> None:
        """Rename the log and its index: the log must not change another database in the ledger's place."""
        for path in self._own_files_beside():
            os.rename(path, f"{path}.unused-{time.time_ns()}")

    def _remove_log(self) -> None:
        """Remove the log and its index, whose data are all in another file. SQLite would leave the log in its place."""
        for path in self._own_files_beside():
            os.unlink(path)

    def _own_files_beside(self) -> list[str]:
        return [f"{self._path}{ending}" for ending, opened in self._beside.items() if self._is_there(ending, opened)]


def lost(what: str, advice: str) -> str:
    """The message of a `LedgerLost`."""
    return f"{what}; {_ENDS}. {advice}"
