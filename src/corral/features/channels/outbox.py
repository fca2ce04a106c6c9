"""The outbox: a file with messages to send. Messages are stored before they are sent, and their ids are kept for a
while after.

    waiting    messages that are neither delivered nor given up
    sent       ids of delivered messages, so that a repeated message is not sent again
    failing    channels whose failure was reported, and since when
    users      the channels of users: secrets, which belong neither into the journal nor into a listing

It is not part of the ledger: it holds secrets, no decision reads it, and it must not slow down the ledger's thread.
"""

import contextlib
import json
import logging
import math
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from corral.config.channel_url import kind_of
from corral.core.model.errors import BackendFailed, Refused
from corral.features.channels.channel_process import Outgoing

log = logging.getLogger(__name__)

SENT_KEPT_S = 30 * 86400.0
"""The time for which the id of a delivered message is kept."""

_FORMAT = 1
_BUSY_TIMEOUT_S = 5.0
_TABLES = """
CREATE TABLE IF NOT EXISTS waiting (
    channel TEXT NOT NULL, id TEXT NOT NULL, taken_at REAL NOT NULL, message TEXT NOT NULL,
    PRIMARY KEY (channel, id));
CREATE TABLE IF NOT EXISTS sent (
    channel TEXT NOT NULL, id TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (channel, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failing (channel TEXT PRIMARY KEY, since REAL NOT NULL);
CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, uid INTEGER NOT NULL, url TEXT NOT NULL, set_at REAL NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting message, and when it was accepted (Unix seconds of the server's clock)."""

    message: Outgoing
    taken_at: float


@dataclass(frozen=True, slots=True)
class UserChannel:
    """The channel of one user. `uid` is the user's when it was set: a later user of the same name has another uid."""

    user: str
    uid: int
    url: str
    set_at: float


class Outbox:
    """The file. It is created at first use and readable by its owner only. Thread-safe. Every call may raise
    BackendFailed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None

    def exists(self) -> bool:
        """Return whether anything was ever stored. A server without channels creates no file."""
        return self._path.exists()

    def take(self, channel: str, messages: Sequence[Waiting]) -> list[Waiting]:
        """Store messages, flushed to disk. Return the new ones: neither waiting nor delivered before."""
        new = []
        with self._connection() as db:
            for one in messages:
                of = (channel, one.message.id)
                if db.execute("SELECT 1 FROM sent WHERE channel = ? AND id = ?", of).fetchone() is None:
                    row = (*of, one.taken_at, _written(one.message))
                    if db.execute("INSERT OR IGNORE INTO waiting VALUES (?, ?, ?, ?)", row).rowcount:
                        new.append(one)
        return new

    def waiting(self, channel: str) -> list[Waiting]:
        """Return the waiting messages of a channel, the oldest first."""
        with self._connection() as db:
            rows = db.execute("SELECT taken_at, message FROM waiting WHERE channel = ? ORDER BY rowid", (channel,))
            found = [_read(taken_at, message) for taken_at, message in rows]
        whole = [one for one in found if one is not None]
        if len(whole) < len(found):
            log.error(
                "%d messages for %s are damaged and are not sent: %s", len(found) - len(whole), channel, self._path
            )
        return whole

    def channels(self) -> list[str]:
        """Return the channels with waiting messages."""
        with self._connection() as db:
            return [channel for (channel,) in db.execute("SELECT DISTINCT channel FROM waiting ORDER BY channel")]

    def sent(self, channel: str, message_ids: Sequence[str], at: float) -> None:
        """Record the delivery of these messages: they no longer wait, and are not accepted again."""
        with self._connection() as db:
            for message_id in message_ids:
                db.execute("INSERT OR REPLACE INTO sent VALUES (?, ?, ?)", (channel, message_id, at))
                db.execute("DELETE FROM waiting WHERE channel = ? AND id = ?", (channel, message_id))
            db.execute("DELETE FROM sent WHERE at < ?", (at - SENT_KEPT_S,))

    def drop(self, channel: str, message_ids: Sequence[str] | None = None) -> None:
        """Delete these messages of the channel, or all that wait for it (None)."""
        with self._connection() as db:
            if message_ids is None:
                db.execute("DELETE FROM waiting WHERE channel = ?", (channel,))
                return
            rows = [(channel, one) for one in message_ids]
            db.executemany("DELETE FROM waiting WHERE channel = ? AND id = ?", rows)

    def failing(self) -> dict[str, float]:
        """Return the channels whose failure was reported, with the start of the failure."""
        with self._connection() as db:
            rows = db.execute("SELECT channel, since FROM failing").fetchall()
        return {channel: since for channel, since in rows if _is_time(since)}

    def set_failing(self, channel: str, since: float | None) -> None:
        """Record that the channel fails since then, or (None) that it works again."""
        with self._connection() as db:
            if since is None:
                db.execute("DELETE FROM failing WHERE channel = ?", (channel,))
            else:
                db.execute("INSERT OR REPLACE INTO failing VALUES (?, ?)", (channel, since))

    def users(self) -> list[UserChannel]:
        """Return the channels of users."""
        with self._connection() as db:
            rows = db.execute("SELECT name, uid, url, set_at FROM users ORDER BY name").fetchall()
        whole = [UserChannel(*row) for row in rows if _is_user(row)]
        if len(whole) < len(rows):
            log.error("the channels of %d users are damaged and are not used: %s", len(rows) - len(whole), self._path)
        return whole

    def set_user_channel(self, channel: UserChannel) -> None:
        """Set a user's channel, in place of an earlier one."""
        row = (channel.user, channel.uid, channel.url, channel.set_at)
        with self._connection() as db:
            db.execute("INSERT OR REPLACE INTO users VALUES (?, ?, ?, ?)", row)

    def remove_user_channel(self, user: str) -> bool:
        """Delete a user's channel. Return False if there was none."""
        with self._connection() as db:
            return bool(db.execute("DELETE FROM users WHERE name = ?", (user,)).rowcount)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                db = self._opened = self._opened or self._open()
                with db:
                    yield db
            except (sqlite3.Error, OSError, ValueError, TypeError) as error:
                raise BackendFailed(f"{self._path}: {error}") from error

    def _open(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        db = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, check_same_thread=False)
        try:
            # Deleted secrets are overwritten, and no separate log file keeps them.
            for pragma in ("journal_mode=TRUNCATE", "synchronous=FULL", "secure_delete=ON"):
                db.execute(f"PRAGMA {pragma}")
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, _FORMAT):
                raise BackendFailed(f"{self._path} has the format {found} of another version; move it away")
            db.executescript(_TABLES)
            db.execute(f"PRAGMA user_version = {_FORMAT}")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                db.close()
            raise
        return db


def _read(taken_at: object, written: str | bytes) -> Waiting | None:
    """Return the message of a row, None if the row is damaged."""
    try:
        message = Outgoing(**json.loads(written))
    except (ValueError, TypeError, RecursionError):
        return None
    words = (message.id, message.title, message.body, message.type, message.group)
    whole = all(isinstance(word, str) for word in words) and isinstance(message.fields, dict)
    return Waiting(message, float(taken_at)) if whole and _is_time(taken_at) else None


def _is_user(row: tuple[Any, ...]) -> bool:
    """Return whether a row is an undamaged channel of a user."""
    name, uid, url, set_at = row
    try:
        kind_of(url)
    except (Refused, TypeError):
        return False
    return isinstance(name, str) and isinstance(uid, int) and _is_time(set_at)


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)


def _written(message: Outgoing) -> str:
    return json.dumps(
        {
            "id": message.id,
            "title": message.title,
            "body": message.body,
            "type": message.type,
            "fields": dict(message.fields),
            "group": message.group,
        }
    )
