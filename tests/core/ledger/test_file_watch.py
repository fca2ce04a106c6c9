"""A ledger whose file is moved, removed or overwritten acknowledges nothing that the next server will not find."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event

from corral.core.ledger.file_watch import LedgerLost
from corral.core.ledger.fold import check
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.errors import LedgerFailed
from tests.core.ledger.making import a_job, submitted, url_of, write

LEDGER = "ledger.db"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def ledger(home: Path) -> Iterator[SqlLedger]:
    """With two jobs that were acknowledged, of which the file itself has one at most."""
    ledger = open_ledger(url_of(home))
    write(ledger, submitted(a_job(1)))
    ledger.database.checkpoint()
    write(ledger, submitted(a_job(2)))
    yield ledger
    ledger.close()


NEXT_SERVER = """
import sys
from corral.core.ledger.store import open_ledger
ledger = open_ledger(sys.argv[1])
print(*ledger.view().jobs)
ledger.close()
"""


def jobs_in(home: Path) -> set[str]:
    """What the next server finds: in a process of its own, for this one has its memory of the old files still."""
    done = subprocess.run([sys.executable, "-c", NEXT_SERVER, url_of(home)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def refusal(ledger: SqlLedger) -> str:
    """Of a submission, and of one more."""
    with pytest.raises(LedgerLost) as first:
        write(ledger, submitted(a_job(3)))
    with pytest.raises(LedgerLost) as second:
        write(ledger, submitted(a_job(4)))
    assert str(second.value) == str(first.value) == ledger.lost
    assert "nothing is accepted any more, and the server ends; its jobs run on" in str(first.value)
    return str(first.value)


def test_a_ledger_that_was_moved_is_named_where_it_is_with_all_that_was_acknowledged(
    ledger: SqlLedger, home: Path, tmp_path: Path
) -> None:
    (home / LEDGER).rename(tmp_path / "elsewhere.db")
    said = refusal(ledger)
    assert f"was moved to {tmp_path / 'elsewhere.db'} while the server ran" in said
    assert f"move it back to {home / LEDGER}" in said
    ledger.close()
    assert sorted(path.name for path in home.iterdir()) == []
    (tmp_path / "elsewhere.db").rename(home / LEDGER)
    assert jobs_in(home) >= {"1", "2"}


def test_what_was_acknowledged_before_a_kill_is_there_when_the_file_is_put_back(home: Path, tmp_path: Path) -> None:
    """The look comes before the acknowledgement, so whatever was acknowledged is in the files that were there."""
    script = f"""
import os, shutil, sys
from pathlib import Path
from corral.core.ledger.store import open_ledger
from tests.core.ledger.making import a_job, submitted, url_of, write
home = Path({str(home)!r})
ledger = open_ledger(url_of(home))
for number in range(1, 200):
    if number == 100:
        os.rename(home / "ledger.db", {str(tmp_path / "away.db")!r})
    try:
        write(ledger, submitted(a_job(number)))
    except Exception:
        os.kill(os.getpid(), 9)
    print(number, flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[3])
    acknowledged = done.stdout.split()
    assert acknowledged == [str(number) for number in range(1, 100)], done.stderr
    (tmp_path / "away.db").rename(home / LEDGER)
    assert jobs_in(home) >= set(acknowledged)


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_a_ledger_that_was_removed_or_replaced_is_saved_as_a_file_of_another_name(
    ledger: SqlLedger, home: Path, tmp_path: Path, replaced: bool
) -> None:
    if replaced:
        other = tmp_path / "other"
        other.mkdir()
        restored = open_ledger(url_of(other))
        write(restored, submitted(a_job(77)))
        restored.close()
        (other / LEDGER).replace(home / LEDGER)
    else:
        (home / LEDGER).unlink()
    said = refusal(ledger)
    assert ("another file is in its place" in said) == replaced
    (copy,) = home.glob("ledger.db.saved-*")
    assert str(copy) in said
    assert copy.stat().st_mode & 0o777 == 0o600
    ledger.close()
    if replaced:
        assert jobs_in(home) == {"77"}, "what the old one has in its log must not get into the new one"
    copy.rename(home / LEDGER)
    assert jobs_in(home) >= {"1", "2"}
    assert check(url_of(home)) == ()


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
def test_without_a_file_beside_it_all_that_was_acknowledged_gets_into_the_ledger(
    ledger: SqlLedger, home: Path, ending: str
) -> None:
    (home / f"{LEDGER}{ending}").unlink()
    said = refusal(ledger)
    assert f"{LEDGER}{ending} was removed or replaced" in said
    assert "start the server again" in said
    ledger.close()
    assert jobs_in(home) >= {"1", "2"}


def truncated(path: Path) -> None:
    os.truncate(path, 0)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def copied_over(path: Path) -> None:
    """As `cp` does: the file stays the same one."""
    other = path.parent.parent / "other"
    other.mkdir()
    restored = open_ledger(url_of(other))
    for number in range(70, 90):
        write(restored, submitted(a_job(number)))
    restored.close()
    shutil.copyfile(other / LEDGER, path)


@pytest.mark.parametrize("harm", [truncated, cut_short, copied_over])
def test_a_ledger_that_another_program_has_written_to_is_not_trusted(
    ledger: SqlLedger, home: Path, harm: Callable[[Path], None]
) -> None:
    harm(home / LEDGER)
    assert "another program has written to the ledger" in refusal(ledger)
    ledger.close()
    assert not (home / f"{LEDGER}-wal").exists(), "the log of what was there would be written into what is there now"
    if harm is copied_over:
        assert jobs_in(home) == {str(number) for number in range(70, 90)}


def test_a_ledger_that_is_a_link_is_refused_with_what_to_do(ledger: SqlLedger, home: Path, tmp_path: Path) -> None:
    ledger.close()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / LEDGER).symlink_to(home / LEDGER)
    with pytest.raises(LedgerFailed, match=f"is a symbolic link to {home / LEDGER}.*put the file itself there"):
        open_ledger(url_of(tmp_path / "linked"))


def test_a_link_to_the_ledger_is_not_the_ledger(ledger: SqlLedger, home: Path) -> None:
    (home / LEDGER).rename(home / "x")
    (home / LEDGER).symlink_to("x")
    assert f"was moved to {home / 'x'}" in refusal(ledger)
    ledger.close()
    (home / "x").replace(home / LEDGER)
    assert jobs_in(home) >= {"1", "2"}


def test_a_log_that_was_cut_ends_the_server(ledger: SqlLedger, home: Path) -> None:
    os.truncate(home / f"{LEDGER}-wal", 0)
    assert "another program has written to the ledger" in refusal(ledger)


def test_a_file_that_was_cut_is_lost_though_its_log_has_all_of_it(tmp_path: Path) -> None:
    ledger = open_ledger(url_of(tmp_path))
    write(ledger, submitted(a_job(1)))
    os.truncate(tmp_path / LEDGER, 0)
    assert "another program has written to the ledger" in refusal(ledger)
    ledger.close()


def test_a_home_that_was_renamed_is_lost_and_whole(ledger: SqlLedger, home: Path, tmp_path: Path) -> None:
    home.rename(tmp_path / "moved")
    assert f"was moved to {tmp_path / 'moved' / LEDGER}" in refusal(ledger)
    ledger.close()
    assert jobs_in(tmp_path / "moved") >= {"1", "2"}


def test_a_home_that_was_removed_is_lost(ledger: SqlLedger, home: Path) -> None:
    shutil.rmtree(home)
    said = refusal(ledger)
    assert "it is in no directory any more" in said
    assert "could not be saved" in said


def test_a_loss_is_noticed_while_nobody_submits(ledger: SqlLedger, home: Path, tmp_path: Path) -> None:
    assert ledger.lost is None
    (home / LEDGER).rename(tmp_path / "elsewhere.db")
    assert ledger.lost is not None
    assert re.search(r"was moved to .*elsewhere\.db", ledger.lost)


def test_nobody_is_answered_out_of_another_file(ledger: SqlLedger, home: Path, tmp_path: Path) -> None:
    """Readers open connections as they need them."""
    ledger.database._readers.dispose()
    (home / LEDGER).rename(tmp_path / "elsewhere.db")
    with pytest.raises(Exception, match="is not there: it was moved or removed"):
        ledger.journal()
    assert not (home / LEDGER).exists()


def test_others_may_read_copy_and_fold_a_ledger_that_runs(ledger: SqlLedger, home: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(home / LEDGER)) as other, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        other.backup(copy)
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    write(ledger, submitted(a_job(3)))
    with closing(sqlite3.connect(home / LEDGER)) as other:
        other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    write(ledger, submitted(a_job(4)))
    assert ledger.lost is None
    ledger.close()
    assert jobs_in(home) == {"1", "2", "3", "4"}


def during_the_commit(ledger: SqlLedger, happens: Callable[[], object]) -> None:
    """Of the next transaction: after the look before it, and before the look after it."""
    event.listen(ledger.database._writer, "commit", lambda connection: happens(), once=True)


def test_what_is_on_disk_is_acknowledged_though_no_look_is_possible_after_the_commit(
    ledger: SqlLedger, home: Path, tmp_path: Path
) -> None:
    def hide() -> None:
        home.rename(tmp_path / "away")
        home.symlink_to(home)  # ELOOP, which says nothing about what is there.

    during_the_commit(ledger, hide)
    write(ledger, submitted(a_job(3)))
    with pytest.raises(LedgerFailed, match="cannot be looked at") as refused:
        write(ledger, submitted(a_job(4)))
    assert not isinstance(refused.value, LedgerLost)
    home.unlink()
    (tmp_path / "away").rename(home)
    write(ledger, submitted(a_job(5)))
    found = jobs_in(home)
    assert found >= {"1", "2", "3", "5"}
    assert "4" not in found


def test_a_ledger_that_is_lost_and_cannot_be_saved_acknowledges_nothing(tmp_path: Path) -> None:
    # No name that is any longer is possible: neither of a copy, nor of a log that is set aside.
    path = tmp_path / ("l" * 240)
    ledger = open_ledger(f"sqlite:///{path}")
    during_the_commit(ledger, path.unlink)
    assert "could not be saved" in refusal(ledger)
    ledger.close()
