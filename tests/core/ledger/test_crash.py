"""Killed with SIGKILL at any step: what was promised is there, and what is there holds together."""

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corral.core.ledger.fold import check
from corral.core.ledger.ids import RESERVE
from corral.core.ledger.store import open_ledger
from corral.core.model.jobs.phase import Phase
from corral.core.ports.ledger import JobQuery
from corral.features.channels.slice import NoticesSlice
from corral.features.feature_list import slices
from tests.core.ledger.making import a_job, submitted, url_of, write

ROOT = Path(__file__).parents[3]
ENOUGH_PROMISES = 400
HANGS_S = 250
"""By then it is no longer slow but stuck: every promise costs a flush of the disk."""


@contextmanager
def run(*arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-m", "tests.core.ledger.crashing", *arguments], cwd=ROOT) as server:
        try:
            yield server
        finally:
            server.kill()


def promises_of(home: Path) -> dict[str, list[str]]:
    promised: dict[str, list[str]] = defaultdict(list)
    for line in (home / "promises").read_text().splitlines():
        word, *ids = line.split()
        promised[word] += ids
    return promised


def assert_kept(home: Path) -> None:
    """Reopen what a dead server left, and go on with it."""
    promised = promises_of(home)
    ledger = open_ledger(url_of(home), slices=slices())
    view = ledger.view()
    for job_id in promised["submitted"]:
        assert ledger.find_job(job_id) is not None
    for job_id in promised["running"]:
        job = ledger.find_job(job_id)
        assert job is not None
        assert job.phase in (Phase.RUNNING, Phase.SUCCEEDED)
    for job_id in promised["ended"]:
        job = ledger.find_job(job_id)
        assert job is not None
        assert job.phase is Phase.SUCCEEDED
    # Each operation is there whole or not at all.
    over = {job.id for job in ledger.jobs(JobQuery(phases=(Phase.SUCCEEDED,)))}
    assert set(ledger.snapshot().of(NoticesSlice).notifications) == over
    running = {job.id for job in view.jobs.values() if job.phase is Phase.RUNNING}
    assert {allocation.job_id for allocation in view.allocations.values()} == running
    fresh = ledger.next_ids(1)[0]
    assert fresh not in promised["given"]
    assert int(fresh) <= max(map(int, promised["given"]), default=0) + RESERVE + 8
    write(ledger, submitted(a_job(int(fresh))))
    ledger.close()
    assert check(url_of(home), slices()) == ()


def test_whatever_step_towards_the_disk_a_server_dies_at_its_promises_are_kept(tmp_path: Path) -> None:
    with run("steps", str(tmp_path)) as program:
        assert program.wait(timeout=HANGS_S) == 0
    homes = sorted(tmp_path.iterdir(), key=lambda home: int(home.name))
    assert len(homes) > 50
    for home in homes:
        assert_kept(home)
    assert promises_of(homes[0]) == {}
    assert len(promises_of(homes[-1])["ended"]) == 1


def test_servers_killed_in_the_middle_of_traffic_keep_promises_and_never_give_an_id_twice(tmp_path: Path) -> None:
    promises = tmp_path / "promises"
    give_up_at = time.monotonic() + HANGS_S
    for round_ in range(1, 4):
        with run("traffic", str(tmp_path)) as server:
            while not promises.exists() or len(promises.read_bytes().splitlines()) < ENOUGH_PROMISES * round_:
                assert time.monotonic() < give_up_at
                assert server.poll() is None
                time.sleep(0.01)
        assert_kept(tmp_path)
    given = promises_of(tmp_path)["given"]
    assert len(set(given)) == len(given) > ENOUGH_PROMISES
