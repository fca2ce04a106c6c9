"""Whatever is wrong with the bytes of a ledger, who starts it is told that it is damaged, and what to do."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from corral.core.ledger.store import open_ledger
from corral.core.model.errors import LedgerFailed
from corral.core.ports.ledger import JobQuery
from tests.core.ledger.making import a_job, send, submitted, url_of, write

PAGE_BYTES = 4096
ADVICE = r"damaged .*put a backup .*in its place"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A ledger of two hundred jobs."""
    home = tmp_path_factory.mktemp("sound")
    ledger = open_ledger(url_of(home))
    for future in [send(ledger, submitted(a_job(number))) for number in range(1, 200)]:
        future.result()
    ledger.close()
    return (home / "ledger.db").read_bytes()


def _trouble(home: Path) -> str | None:
    """What is said to who starts on it, reads all of it and writes to it; None for nothing."""
    try:
        ledger = open_ledger(url_of(home))
        try:
            ledger.jobs(JobQuery(limit=None))
            ledger.journal()
            write(ledger, submitted(a_job(1000)))
        finally:
            ledger.close()
    except LedgerFailed as error:
        return str(error)
    return None


def _harmed(data: bytes, draw: random.Random) -> bytes:
    pages, damaged = len(data) // PAGE_BYTES, bytearray(data)
    start = draw.randrange(pages) * PAGE_BYTES
    match draw.choice(["page", "zeros", "bytes", "header", "cut"]):
        case "page":
            damaged[start : start + PAGE_BYTES] = draw.randbytes(PAGE_BYTES)
        case "zeros":
            damaged[start : start + PAGE_BYTES] = bytes(PAGE_BYTES)
        case "bytes":
            for _ in range(draw.choice([1, 5, 50])):
                damaged[draw.randrange(len(data))] ^= draw.randrange(1, 256)
        case "header":
            damaged[draw.randrange(100)] ^= draw.randrange(1, 256)
        case "cut":
            del damaged[draw.randrange(100, len(data)) :]
    return bytes(damaged)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_damaged_is_called_so_or_does_no_harm(sound: bytes, tmp_path: Path, seed: int) -> None:
    (tmp_path / "ledger.db").write_bytes(_harmed(sound, random.Random(seed)))
    said = _trouble(tmp_path)
    assert said is None or ("damaged" in said and "backup" in said)


def test_a_ledger_that_was_cut_short_says_by_how_much(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(sound[: 3 * PAGE_BYTES])
    with pytest.raises(LedgerFailed, match=rf"cut short: {3 * PAGE_BYTES} of {len(sound)} bytes.*{ADVICE[8:]}"):
        open_ledger(url_of(tmp_path))


def test_text_that_is_none_is_damage(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(sound.replace(b'{"user":"alice"', b'{"use\xff":"alice"'))
    with pytest.raises(LedgerFailed, match=ADVICE):
        open_ledger(url_of(tmp_path))


def test_tables_whose_definition_is_no_text_are_damage(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(sound.replace(b"CREATE TABLE environments", b"CREATE T\xeeBLE environments"))
    with pytest.raises(LedgerFailed, match=ADVICE):
        open_ledger(url_of(tmp_path))


@pytest.mark.parametrize("found", ["p011", "", "11", "0000"])
def test_a_format_that_no_version_has_written_is_damage_and_no_newer_version(
    sound: bytes, tmp_path: Path, found: str
) -> None:
    (tmp_path / "ledger.db").write_bytes(sound)
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = ?", (found,))
    with pytest.raises(LedgerFailed, match=ADVICE):
        open_ledger(url_of(tmp_path))


def test_a_table_that_is_missing_is_damage(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(sound)
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw, raw:
        raw.execute("DROP TABLE tokens")
    with pytest.raises(LedgerFailed, match=ADVICE):
        open_ledger(url_of(tmp_path))


def test_what_is_no_file_in_the_place_of_the_log_is_named(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(sound)
    (tmp_path / "ledger.db-wal").mkdir()
    with pytest.raises(LedgerFailed, match=r"ledger\.db-wal is not a file"):
        open_ledger(url_of(tmp_path))
