"""Whether the files of a ledger are still those that it was opened with, and what is saved where they are not.

A database goes on in a file that was moved or removed, and says nothing. What is acknowledged then would be gone with
the process. So the files are looked at before anything is acknowledged: a look costs a few calls of stat(2).
"""

import errno
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from corral.core.model.errors import LedgerFailed

BESIDE = ("-wal", "-shm")
"""Without these two, what was written last is in no file that the next server opens."""

_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
_ENDS = "nothing is accepted any more, and the server ends; its jobs run on"


class LedgerLost(LedgerFailed):
    """The files are not the server's any more. The message says what became of them, what was saved, and what to do."""


class FileWatch:
    """The files of one database that is open. `begin` once it has connections; for one thread at a time.

    Attributes:
        stays_open: the last connection must not be closed: it would fold its log into what is another's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Kept open as long as the database: closing a descriptor of its file would drop its locks.
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._beside: dict[str, os.stat_result] = {}
        self._log_fd: int | None = None
        self._as_left: tuple[int, int] | None = None
        self._log_bytes = 0
        self.stays_open = False

    def begin(self) -> None:
        """These are the files from now on. Raises OSError."""
        self._beside = {ending: os.lstat(f"{self._path}{ending}") for ending in BESIDE}
        self._log_fd = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.left()

    def left(self) -> None:
        """This process has just written to the file, as it may at each commit."""
        found = os.fstat(self._fd)
        self._as_left = found.st_mtime_ns, found.st_size
        self._log_bytes = self._log_size()

    def touched(self) -> bool:
        """Whether another process has written to the file since it was `left`, or cut its log."""
        found = os.fstat(self._fd)
        return (found.st_mtime_ns, found.st_size) != self._as_left or self._log_size() < self._log_bytes

    def cut(self) -> bool:
        """Whether the file is shorter than it was `left`: what the log still has of it is not all."""
        return self._as_left is not None and os.fstat(self._fd).st_size < self._as_left[1]

    def displaced(self) -> str | None:
        """What became of a file that is not where it was, a sentence; None while all are. Raises LedgerFailed."""
        if not self._is_there("", os.fstat(self._fd)):
            return self._what_became_of_it()
        for ending, opened in self._beside.items():
            if not self._is_there(ending, opened):
                return f"{self._path}{ending} was removed or replaced while the server ran"
        return None

    def rescue(self, connection: sqlite3.Connection) -> str:
        """Bring what was acknowledged into one file, as far as that is possible; what to do then, a sentence."""
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
        """Keep the write-ahead log away from what another process has put into the file; what to do, a sentence."""
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
        """Once the database has no connection any more."""
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
            # A link is not the file: SQLite would look for the log beside what it names.
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
        """Another database in the ledger's place would be changed by what is in the log of this one."""
        for path in self._own_files_beside():
            os.rename(path, f"{path}.unused-{time.time_ns()}")

    def _remove_log(self) -> None:
        """The log has nothing any more that is in no other file. SQLite leaves it where its database was."""
        for path in self._own_files_beside():
            os.unlink(path)

    def _own_files_beside(self) -> list[str]:
        return [f"{self._path}{ending}" for ending, opened in self._beside.items() if self._is_there(ending, opened)]


def lost(what: str, advice: str) -> str:
    """The message of a `LedgerLost`."""
    return f"{what}; {_ENDS}. {advice}"
