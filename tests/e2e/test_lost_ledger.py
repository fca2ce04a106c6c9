"""A server whose ledger is moved under it, and a home whose ledger is gone: nothing is acknowledged or made up."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from getpass import getuser
from pathlib import Path

import pytest

from corral.pid_file import read_pid
from tests.e2e.box import Box, described

LEDGER = "ledger.db"


@pytest.fixture
def lone(new_box: Callable[[str], Box]) -> Iterator[Box]:
    """A box with a job that has ended; in the end it has a ledger, by which it can be cleared."""
    box = new_box(described(1))
    box.up()
    box.ended(box.submit("--gpus", "0", "--", "echo", "kept"))
    yield box
    if pid_of(box) is None and not (box.home / LEDGER).exists():
        box.run("up", "--detach", "--mock", str(box.mock), "--anew")


def pid_of(box: Box) -> int | None:
    return read_pid(box.home / "corral.pid")


def up(box: Box, *words: str) -> tuple[int, str]:
    done = box.run("up", "--detach", "--mock", str(box.mock), *words)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def kill(box: Box) -> None:
    pid = pid_of(box)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    box.until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_ledger_that_is_moved_under_a_server_ends_it_and_nothing_acknowledged_is_lost(
    lone: Box, tmp_path: Path
) -> None:
    before = lone.submit("--gpus", "0", "--", "true")
    pid = pid_of(lone)
    (lone.home / LEDGER).rename(tmp_path / LEDGER)
    refused = lone.run("submit", "--gpus", "0", "--", "true")
    assert refused.returncode != 0
    lone.until(lambda: not Path(f"/proc/{pid}").exists())
    assert f"was moved to {tmp_path / LEDGER} while the server ran" in (lone.home / "server.log").read_text()
    code, said = up(lone)
    assert code != 0
    assert "there is no ledger in" in said
    assert "logs (" in said
    assert "corral up --anew" in said
    assert not (lone.home / LEDGER).exists(), "a server that is refused leaves no empty ledger behind"
    (tmp_path / LEDGER).rename(lone.home / LEDGER)
    lone.up()
    assert lone.ended(before)["phase"] == "SUCCEEDED"


def test_an_idle_server_notices_too(lone: Box, tmp_path: Path) -> None:
    pid = pid_of(lone)
    (lone.home / LEDGER).rename(tmp_path / LEDGER)
    lone.until(lambda: not Path(f"/proc/{pid}").exists())
    (tmp_path / LEDGER).rename(lone.home / LEDGER)
    lone.up()


@pytest.mark.parametrize("gone", ["missing", "empty"])
def test_a_ledger_that_is_gone_is_not_begun_anew_by_itself(lone: Box, gone: str) -> None:
    kill(lone)
    if gone == "missing":
        (lone.home / LEDGER).unlink()
    else:
        os.truncate(lone.home / LEDGER, 0)
    log = (lone.home / f"{LEDGER}-wal").read_bytes()
    code, said = up(lone)
    assert code != 0
    assert "ledger.db is missing or empty" in said
    assert (lone.home / f"{LEDGER}-wal").read_bytes() == log, "it has what was acknowledged last"
    code, said = up(lone, "--anew")
    assert code == 0, said
    (aside,) = lone.home.glob("earlier-*")
    assert aside.stat().st_mode & 0o777 == 0o700
    assert {"logs", "launches", f"{LEDGER}-wal"} <= {path.name for path in aside.iterdir()}
    assert (aside / f"{LEDGER}-wal").read_bytes() == log
    assert lone.json("ps", "--all", "--json") == []
    assert lone.submit("--gpus", "0", "--", "true") == "1"


def test_beginning_anew_is_refused_while_a_job_of_before_runs(lone: Box) -> None:
    job = lone.submit("--gpus", "0", "--", "sleep", "1000")
    lone.until_phase(job, "RUNNING")
    lone.down()
    code, said = up(lone, "--anew")
    assert code != 0
    assert re.search(rf"job {job}\.1 \(process \d+ of {getuser()}\)", said)
    for name in (LEDGER, "launches", "claims"):
        (lone.home / name).rename(lone.home / f"away-{name}")
    code, said = up(lone, "--anew")
    assert code != 0, "its processes are known without any record, too"
    assert re.search(rf"job {job}\.1 \(process \d+ of {getuser()}\)", said)
    for name in (LEDGER, "launches", "claims"):
        (lone.home / f"away-{name}").rename(lone.home / name)
    lone.up()
    lone.ok("cancel", job)


def test_beginning_anew_is_refused_beside_whoever_has_the_ledger_open(lone: Box) -> None:
    """As a second server does whose first one lost its lock."""
    (lone.home / "corral.lock").unlink()
    code, said = up(lone, "--anew")
    assert code != 0
    assert "which has ledger.db open" in said
    assert lone.json("ps", "--all", "--json")


def test_a_new_home_begins_with_and_without_being_told_so(new_box: Callable[[str], Box]) -> None:
    for words in ((), ("--anew",)):
        box = new_box(described(1))
        code, said = up(box, *words)
        assert code == 0, said
        assert not list(box.home.glob("earlier-*"))


def test_beginning_anew_moves_a_good_ledger_aside_with_all_that_belongs_to_it(lone: Box) -> None:
    lone.down()
    code, said = up(lone, "--anew")
    assert code == 0, said
    (aside,) = lone.home.glob("earlier-*")
    assert (aside / LEDGER).stat().st_size > 0
    assert (aside / "logs/1.log").read_text() == "kept\n"
    assert lone.submit("--gpus", "0", "--", "true") == "1"
    assert (lone.home / "token").exists()
