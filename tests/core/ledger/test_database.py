"""What a person is told when the file, the disk or another process stands in the way."""

import os
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from corral.core.ledger.database import Database
from corral.core.ledger.fold import check
from corral.core.ledger.store import open_ledger
from corral.core.model.errors import LedgerFailed
from tests.core.ledger.making import a_job, send, submitted, url_of, write


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """As another process that writes would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_a_missing_directory_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "such"
    with pytest.raises(LedgerFailed, match=f"mkdir -p {missing}"):
        open_ledger(url_of(missing))
    assert not missing.exists()


def test_a_directory_in_the_files_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(LedgerFailed, match=r"ledger\.db cannot be opened for writing: Is a directory"):
        open_ledger(url_of(tmp_path))


@pytest.mark.parametrize(
    "url",
    ["ledger.db", "sqlite://", "sqlite:///:memory:", "postgresql://db/corral", "mysql://me:secret@db/x"],
)
def test_only_a_file_of_sqlite_will_do_and_the_error_shows_one(url: str) -> None:
    with pytest.raises(LedgerFailed, match=r"sqlite:////var/lib/corral/ledger\.db") as error:
        open_ledger(url)
    assert "secret" not in str(error.value)


def test_a_file_that_is_no_database_is_called_damaged_and_left_alone(tmp_path: Path) -> None:
    text = "a shopping list, nothing else\n" * 100
    (tmp_path / "ledger.db").write_text(text)
    with pytest.raises(LedgerFailed, match=r"damaged .*not a database.*backup"):
        open_ledger(url_of(tmp_path))
    assert (tmp_path / "ledger.db").read_text() == text


def test_a_database_with_broken_pages_is_called_damaged(tmp_path: Path) -> None:
    ledger = open_ledger(url_of(tmp_path))
    write(ledger, *(submitted(a_job(number)) for number in range(1, 200)))
    ledger.close()
    with (tmp_path / "ledger.db").open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(os.path.getsize(tmp_path / "ledger.db") - 4096))
    with pytest.raises(LedgerFailed, match="damaged"):
        open_ledger(url_of(tmp_path))


def test_a_row_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    ledger = open_ledger(url_of(tmp_path))
    write(ledger, submitted(a_job(17)))
    ledger.close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw, raw:
        raw.execute("""UPDATE jobs SET spec = '{"user": "alice", "colour": 1}'""")
    with pytest.raises(LedgerFailed, match=r"job 17 cannot be read .*colour"):
        open_ledger(url_of(tmp_path))


def test_a_database_locked_by_another_process_is_said_to_be_at_opening(tmp_path: Path) -> None:
    open_ledger(url_of(tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("DELETE FROM meta")
        with pytest.raises(LedgerFailed, match=r"locked by another process.*fuser .*ledger\.db"):
            open_ledger(url_of(tmp_path, "?timeout=0.05"))


def test_a_commit_while_locked_fails_whole_and_the_ledger_goes_on_afterwards(tmp_path: Path) -> None:
    ledger = open_ledger(url_of(tmp_path, "?timeout=0.05"))
    write(ledger, submitted(a_job(1)))
    with locked(tmp_path / "ledger.db"):
        futures = [send(ledger, submitted(a_job(number))) for number in (2, 3)]
        for future in futures:
            with pytest.raises(LedgerFailed, match="locked by another process"):
                future.result()
        assert set(ledger.view().jobs) == {"1"}
    write(ledger, submitted(a_job(4)))
    assert set(ledger.view().jobs) == {"1", "4"}
    ledger.close()
    assert check(url_of(tmp_path)) == ()


def test_a_short_lock_is_waited_for(tmp_path: Path) -> None:
    ledger = open_ledger(url_of(tmp_path, "?timeout=60"))
    with locked(tmp_path / "ledger.db"):
        future = send(ledger, submitted(a_job(1)))
        time.sleep(0.05)
        assert not future.done()
    future.result()
    ledger.close()


def test_a_second_server_on_the_same_file_cannot_write_over_the_first(tmp_path: Path) -> None:
    first, second = open_ledger(url_of(tmp_path)), open_ledger(url_of(tmp_path))
    write(first, submitted(a_job(1)))
    with pytest.raises(LedgerFailed, match="another server uses the same file"):
        write(second, submitted(a_job(2)))
    write(first, submitted(a_job(3)))
    first.close()
    second.close()
    assert check(url_of(tmp_path)) == ()


def test_a_second_server_on_the_same_file_cannot_give_the_ids_of_the_first(tmp_path: Path) -> None:
    first, second = open_ledger(url_of(tmp_path)), open_ledger(url_of(tmp_path))
    given = first.next_ids(3)
    with pytest.raises(LedgerFailed, match="another server has taken job numbers"):
        second.next_ids(3)
    second.close()
    assert first.next_ids(200)[0] == str(len(given) + 1)
    first.close()


FULL_DISK = """
import resource, sys
from corral.core.ledger.store import open_ledger
from corral.core.model.errors import LedgerFailed
from tests.core.ledger.making import a_job, submitted, write

ledger = open_ledger(sys.argv[1])
write(ledger, submitted(a_job(1)))
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
try:
    write(ledger, *(submitted(a_job(number, env=(("FILL", "x" * 9000 + str(number)),))) for number in range(2, 60)))
except LedgerFailed as error:
    print(error)
print(sorted(ledger.view().jobs))
write(ledger, submitted(a_job(100)))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
write(ledger, submitted(a_job(101)))
print(sorted(ledger.view().jobs))
ledger.close()
"""


def test_a_disk_without_room_fails_the_batch_and_the_ledger_goes_on(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, url_of(tmp_path)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    message, during, after = done.stdout.splitlines()
    assert "nothing was written" in message
    assert (during, after) == ("['1']", "['1', '100', '101']")
    assert check(url_of(tmp_path)) == ()


def test_a_read_only_file_system_and_one_without_inodes_are_called_so(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,nr_inodes=5", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this process may not mount a file system")
    try:
        ledger = open_ledger(url_of(place))
        (place / "fill").write_bytes(bytes(os.statvfs(place).f_bavail * 4096))
        assert os.statvfs(place).f_favail == 0
        with pytest.raises(LedgerFailed, match=r"is full \(it has no inodes left\); nothing was written"):
            write(ledger, *(submitted(a_job(number)) for number in range(1, 5000)))
        (place / "fill").unlink()
        ledger.close()
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        with (
            pytest.raises(LedgerFailed, match="is on a read-only file system; nothing was written"),
            Database(url_of(place)).writing(),
        ):
            pass
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
