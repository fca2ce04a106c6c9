import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from corral.core.ledger import tokens as table
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.errors import LedgerFailed
from corral.core.model.token import Token, TokenScope
from tests.core.ledger.making import url_of

ALICE = Token("", "alice", 1000, TokenScope.SUBMIT, 5.0, "root", expires_at=100.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    ledger = open_ledger(url_of(tmp_path))
    yield ledger
    ledger.close()


def test_a_token_is_found_by_its_digest_and_after_a_restart(ledger: SqlLedger, tmp_path: Path) -> None:
    first = ledger.tokens.add(ALICE, "digest-1")
    second = ledger.tokens.add(replace(ALICE, user="bob", parent=first.id, expires_at=None), "digest-2")
    assert (first, first.id) == (replace(ALICE, id=first.id), "1")
    assert ledger.tokens.find("digest-3") is None
    ledger.close()
    again = open_ledger(url_of(tmp_path))
    assert (again.tokens.find("digest-1"), again.tokens.find("digest-2")) == (first, second)
    assert again.tokens.all() == (first, second)
    again.close()


def test_a_revoked_token_stays_revoked_and_keeps_its_first_moment(ledger: SqlLedger, tmp_path: Path) -> None:
    token = ledger.tokens.add(ALICE, "digest")
    for at in (7.0, 9.0):
        ledger.tokens.revoke([token.id], at)
        found = ledger.tokens.find("digest")
        assert found is not None
        assert found.revoked_at == 7.0
    ledger.close()
    again = open_ledger(url_of(tmp_path))
    assert again.tokens.find("digest") == replace(token, revoked_at=7.0)
    again.close()


def test_a_revoked_token_is_dead_even_if_the_disk_does_not_take_it(ledger: SqlLedger, tmp_path: Path) -> None:
    token = ledger.tokens.add(ALICE, "digest")
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw, raw:
        raw.execute("CREATE TRIGGER full BEFORE UPDATE ON tokens BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    with pytest.raises(LedgerFailed, match="disk is full"):
        ledger.tokens.revoke([token.id], 7.0)
    found = ledger.tokens.find("digest")
    assert found is not None
    assert not found.live(8.0)


def test_when_a_token_was_used_last_is_on_disk_after_a_while_and_at_the_end(ledger: SqlLedger, tmp_path: Path) -> None:
    token = ledger.tokens.add(ALICE, "digest")

    def on_disk() -> float | None:
        with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw:
            at: float | None = raw.execute("SELECT last_used_at FROM tokens").fetchone()[0]
            return at

    ledger.tokens.used(token.id, 20.0)
    ledger.tokens.used(token.id, 21.0)
    assert (ledger.tokens.all()[0].last_used_at, on_disk()) == (21.0, None)
    ledger.tokens.write_uses()
    assert on_disk() == 21.0
    ledger.tokens.used(token.id, 22.0)
    ledger.close()
    assert on_disk() == 22.0


def test_a_use_that_the_disk_does_not_take_is_written_later(ledger: SqlLedger, tmp_path: Path) -> None:
    token = ledger.tokens.add(ALICE, "digest")
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw, raw:
        raw.execute("CREATE TRIGGER full BEFORE UPDATE ON tokens BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
        ledger.tokens.used(token.id, 20.0)
        ledger.tokens.write_uses()
        raw.execute("DROP TRIGGER full")
        raw.commit()
        ledger.tokens.write_uses()
        assert raw.execute("SELECT last_used_at FROM tokens").fetchone()[0] == 20.0


def test_of_a_users_tokens_that_are_over_the_newest_are_kept(
    ledger: SqlLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "ENDED_KEPT", 2)
    other = ledger.tokens.add(replace(ALICE, user="bob"), "of-bob")
    made = [ledger.tokens.add(ALICE, f"digest-{number}") for number in range(5)]
    ledger.tokens.revoke([token.id for token in made[:4]], 6.0)
    new = ledger.tokens.add(replace(ALICE, created_at=7.0), "new")
    assert [token.id for token in ledger.tokens.all()] == [other.id, *(token.id for token in made[2:]), new.id]
    assert ledger.tokens.find("digest-0") is None
    ledger.close()
    again = open_ledger(url_of(tmp_path))
    assert len(again.tokens.all()) == 5
    again.close()


def test_tokens_made_revoked_and_used_at_once_by_many_threads_are_all_as_they_should_be(ledger: SqlLedger) -> None:
    def make(name: str) -> None:
        for number in range(10):
            token = ledger.tokens.add(ALICE, f"{name}-{number}")
            ledger.tokens.used(token.id, 6.0)
            ledger.tokens.revoke([token.id], 7.0)
            ledger.tokens.write_uses()

    threads = [threading.Thread(target=make, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = ledger.tokens.all()
    assert len({token.id for token in found}) == 40
    assert all((token.last_used_at, token.revoked_at) == (6.0, 7.0) for token in found)
