"""Access tokens: a table of their own, also held in memory, because every request on TCP looks one up.

Tokens are not facts of the journal: no view and no decision depends on them, and the time of last use is a measurement.
"""

import logging
import threading
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, update

from corral.core.ledger import tables
from corral.core.ledger.database import Database
from corral.core.model.errors import LedgerFailed
from corral.core.model.token import Token, TokenScope

ENDED_KEPT = 100
"""The number of expired or revoked tokens of a user that are kept. For these, an answer can say why the token is
invalid.
"""

_log = logging.getLogger(__name__)


class TokenTable:
    """The implementation of `corral.core.ports.ledger.TokenStore`, which has the contract.

    A thread holds the lock while it changes data in memory, and never while it waits for the disk. The database has one
    connection for writing. This class waits for that connection, as the ledger's writer does.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._uses: dict[str, float] = {}
        with database.reading() as connection:
            rows = connection.execute(select(tables.tokens).order_by(tables.tokens.c.id)).mappings().all()
        self._tokens = {str(row["id"]): _token_of(row) for row in rows}
        self._ids = {row["digest"]: str(row["id"]) for row in rows}

    def find(self, digest: str) -> Token | None:
        """The token whose secret has this digest, None if there is none."""
        return self._tokens.get(self._ids.get(digest, ""))

    def all(self) -> tuple[Token, ...]:
        """All tokens that are kept, oldest first."""
        with self._lock:
            return tuple(
                replace(token, last_used_at=self._uses.get(token.id, token.last_used_at))
                for token in self._tokens.values()
            )

    def add(self, token: Token, digest: str) -> Token:
        """Write the token, drop the user's oldest ended tokens beyond `ENDED_KEPT`, and return it with its id."""
        over = [one.id for one in self.all() if one.user == token.user and not one.live(token.created_at)]
        dropped = over[: max(0, len(over) - ENDED_KEPT)]
        with self._database.writing() as connection:
            written = connection.execute(insert(tables.tokens), _row_of(token, digest))
            if dropped:
                connection.execute(_DROP, [{"of_id": int(token_id)} for token_id in dropped])
        assert written.inserted_primary_key is not None
        kept = replace(token, id=str(written.inserted_primary_key[0]))
        with self._lock:
            self._tokens[kept.id] = kept
            self._ids[digest] = kept.id
            self._forget(frozenset(dropped))
        return kept

    def revoke(self, token_ids: Collection[str], at: float) -> None:
        """Revoke these tokens at `at` (Unix seconds), in memory first: even with a full disk they are refused."""
        with self._lock:
            for token_id in token_ids:
                token = self._tokens[token_id]
                self._tokens[token_id] = token if token.revoked_at is not None else replace(token, revoked_at=at)
            rows = [{"of_id": int(one), "revoked_at": self._tokens[one].revoked_at} for one in token_ids]
        with self._database.writing() as connection:
            connection.execute(_UPDATE, rows)

    def used(self, token_id: str, at: float) -> None:
        """Record in memory when a token was used (Unix seconds); `write_uses` brings it to disk."""
        with self._lock:
            self._uses[token_id] = at

    def write_uses(self) -> None:
        """Write to disk when tokens were used last. A failure is logged, and the next call tries again."""
        with self._lock:
            uses, self._uses = self._uses, {}
            for token_id in uses.keys() & self._tokens.keys():
                self._tokens[token_id] = replace(self._tokens[token_id], last_used_at=uses[token_id])
        if not uses:
            return
        try:
            with self._database.writing() as connection:
                connection.execute(_UPDATE, [{"of_id": int(one), "last_used_at": at} for one, at in uses.items()])
        except LedgerFailed as error:
            with self._lock:
                self._uses = {**uses, **self._uses}
            _log.warning("the times of the last uses of tokens could not be written: %s", error)

    def _forget(self, token_ids: Collection[str]) -> None:
        for digest in [digest for digest, token_id in self._ids.items() if token_id in token_ids]:
            del self._tokens[self._ids.pop(digest)]


_DROP = delete(tables.tokens).where(tables.tokens.c.id == bindparam("of_id"))
_UPDATE = update(tables.tokens).where(tables.tokens.c.id == bindparam("of_id"))


def _token_of(row: Any) -> Token:
    values = {name: row[name] for name in ("user", "uid", "created_at", "created_by", "expires_at", "revoked_at")}
    return Token(
        id=str(row["id"]),
        scope=TokenScope(row["scope"]),
        last_used_at=row["last_used_at"],
        parent=None if row["parent"] is None else str(row["parent"]),
        **values,
    )


def _row_of(token: Token, digest: str) -> dict[str, Any]:
    return {
        "digest": digest,
        "user": token.user,
        "uid": token.uid,
        "scope": token.scope.value,
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "parent": None if token.parent is None else int(token.parent),
    }
