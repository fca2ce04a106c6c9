"""What an earlier ledger has left is moved aside whole, also where that was cut short."""

import subprocess
import sys
from pathlib import Path

import pytest

from corral.core.model.errors import Conflict
from corral.core.model.home import Home
from corral.host.traces.earlier import move_aside, refuse_without_ledger

OF_A_LEDGER = ("ledger.db", "ledger.db-wal", "ledger.db-shm", "claims", "clock.json")

CUT_SHORT = """
import os, sys
from pathlib import Path
from corral.core.model.home import Home
from corral.host.traces.earlier import move_aside
left = int(sys.argv[2])
def count(event, arguments):
    global left
    if event == "os.rename":
        left -= 1
        if left < 0:
            os._exit(9)
sys.addaudithook(count)
move_aside(Home(Path(sys.argv[1])))
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    fill(tmp_path, "first")
    return Home(tmp_path)


def fill(root: Path, text: str) -> None:
    for name in OF_A_LEDGER:
        (root / name).write_text(text)


def cut_short(home: Home, after_renames: int) -> None:
    done = subprocess.run([sys.executable, "-c", CUT_SHORT, str(home.root), str(after_renames)], check=False)
    assert done.returncode == 9


@pytest.mark.parametrize("after_renames", [0, 1, 2, len(OF_A_LEDGER)])
def test_what_was_cut_short_is_in_one_directory_when_it_is_done_again(home: Home, after_renames: int) -> None:
    cut_short(home, after_renames)
    aside = move_aside(home)
    assert aside is not None
    assert list(home.root.iterdir()) == [aside]
    assert {path.name for path in aside.iterdir()} == set(OF_A_LEDGER)
    assert move_aside(home) is None


def test_no_ledger_begins_by_itself_beside_what_was_cut_short(home: Home) -> None:
    cut_short(home, len(OF_A_LEDGER))
    with pytest.raises(Conflict, match="earlier-unfinished"):
        refuse_without_ledger(home)


def test_a_ledger_that_was_put_there_after_the_cut_is_not_mixed_with_the_one_before(home: Home) -> None:
    cut_short(home, 2)
    fill(home.root, "second")
    aside = move_aside(home)
    assert aside is not None
    assert {path.read_text() for path in aside.iterdir()} == {"second"}
    (before,) = set(home.root.iterdir()) - {aside}
    assert {path.name for path in before.iterdir()} == {"ledger.db", "ledger.db-wal"}
