"""A home of the oldest version that this one takes over: jobs that waited run, and one that ran is taken over."""

import json
import os
import re
import select
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import pytest

from corral.core.ledger.fold import check
from corral.core.ledger.schema import OLDEST_COMMIT
from corral.features.tuner.deployments.port_holder import place
from corral.host.runtimes.process.procfs import marked
from corral.host.runtimes.process.records.still_running import tag_of
from corral.host.runtimes.process.zygote_link import ZygoteLink
from tests.e2e.box import PATIENCE_S, Box

RECORD = Path(__file__).with_name("home_0011.json")
RAN, GONE, EXPERIMENT, CONTAINER, HELD, ENDED = "1", "2", "3", "4", "8", "9"
"""The jobs, as record_home.py has submitted them; 5_0 and 5_1 are elements of an array."""


def fill_in(text: str, home: Path) -> str:
    """The recorded text, with this home and this machine in place of those that it was recorded with."""
    identity = f'"uid":{os.geteuid()},"gid":{os.getegid()},"groups":{json.dumps(os.getgroups(), separators=(",", ":"))}'
    text = text.replace("@HOME@", str(home)).replace("@PYTHON@", sys.executable).replace("@PLACE@", place())
    return text if os.geteuid() == 0 else text.replace('"uid":0,"gid":0,"groups":[0]', identity)


def lay_out(home: Path) -> None:
    """Make the recorded home, whose server was stopped and two of whose jobs run."""
    record = json.loads(RECORD.read_text())
    tag = re.search(r'"CORRAL_LAUNCH": "(\w+)/1\.1"', record["files"]["launches/1.1/spec.jsonl"])
    assert tag is not None
    for name, text in record["files"].items():
        (home / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (home / name).write_text(fill_in(text, home).replace(tag[1], tag_of(home)))
    environment = re.search(r"\"environments\" VALUES\('(\w+)','(.*)'\)", "\n".join(record["ledger"]))
    assert environment is not None
    # It is known by its digest, and names the home.
    digest = blake2b(fill_in(environment[2], home).encode(), digest_size=16).hexdigest()
    with closing(sqlite3.connect(home / "ledger.db")) as ledger:
        ledger.execute("PRAGMA journal_mode=WAL")
        ledger.executescript(fill_in("\n".join(record["ledger"]), home).replace(environment[1], digest))


def run_again(home: Path, launch_id: str) -> None:
    """Have a supervisor run what the older version wrote down of a launch, as that version's supervisor did."""
    for name in ("claim", "exit.room"):
        (home / "launches" / launch_id / name).unlink()
    log = home / "logs" / f"{launch_id.partition('.')[0]}.log"
    log.unlink()
    (home / "scratch").mkdir()
    link = ZygoteLink(str(home / "launches"), str(home / "supervisor.log"))
    assert link.request(launch_id)
    answer = link.receive()
    assert answer is not None
    assert answer.pidfd is not None
    assert not select.select([answer.pidfd], [], [], 0)[0], "its supervisor has ended"
    os.close(answer.pidfd)
    deadline = time.monotonic() + PATIENCE_S
    while not log.exists() or not log.read_text():
        assert time.monotonic() < deadline, (home / "supervisor.log").read_text()
        time.sleep(0.02)
    link.close()


@pytest.fixture(scope="module")
def upgraded() -> Iterator[Box]:
    """The home with this version's server on it, after all of its jobs but the last two have ended."""
    box = Box("")
    lay_out(box.home)
    run_again(box.home, "1.1")
    box.up()
    try:
        assert box.job(RAN)["phase"] == "RUNNING"
        (box.home / "go").touch()
        for job_id in (RAN, GONE, EXPERIMENT, "5_0", "5_1"):
            box.ended(job_id)
        yield box
    finally:
        box.discard()


def test_what_is_recorded_is_of_the_version_that_a_refusal_names() -> None:
    told = (Path(__file__).with_name("record_home.py")).read_text()
    assert f"git worktree add /tmp/before {OLDEST_COMMIT}" in told


def test_a_job_that_ran_is_taken_over_and_ends_as_it_ends(upgraded: Box) -> None:
    job = upgraded.job(RAN)
    assert (job["phase"], job["exit_code"], job["attempts"]) == ("FAILED", 3, 1)
    assert (upgraded.home / "logs/1.log").read_text().splitlines()[:2] == ["begun", "went on"]


def test_a_job_that_did_not_outlive_the_machine_is_lost(upgraded: Box) -> None:
    assert upgraded.job(GONE)["phase"] == "LOST"


def test_jobs_that_waited_run_and_one_on_hold_still_waits_until_it_is_released(upgraded: Box) -> None:
    for index in range(2):
        assert upgraded.job(f"5_{index}")["phase"] == "SUCCEEDED"
        assert (upgraded.home / f"logs/5_{index}.log").read_text() == f"element {index}\n"
    assert upgraded.job(HELD)["phase"] == "PENDING"
    upgraded.ok("release", HELD)
    assert upgraded.ended(HELD)["phase"] == "SUCCEEDED"


def test_an_experiment_that_waited_is_served_at_an_address_of_its_own(upgraded: Box) -> None:
    assert upgraded.job(EXPERIMENT)["phase"] == "SUCCEEDED"
    said, address = (upgraded.home / f"logs/{EXPERIMENT}.log").read_text().splitlines()
    assert re.fullmatch(r"127\.0\.0\.1 \d+", address)
    assert said == f"corral: the server is at {address.replace(' ', ':')}"


def test_the_runner_of_a_container_that_waited_reads_its_orders_and_awaits_docker(upgraded: Box) -> None:
    """Where there is a Docker the runner ends: it has no such image."""
    mark = f"CORRAL_LAUNCH={tag_of(upgraded.home)}/{CONTAINER}.1".encode()
    said = upgraded.home / "container/state.json"
    deadline = time.monotonic() + PATIENCE_S
    # It starts the second thread once it has read its orders.
    while not said.exists() and not any(len(os.listdir(f"/proc/{pid}/task")) == 2 for pid in marked(mark)):
        assert upgraded.job(CONTAINER)["exit_code"] is None, (upgraded.home / f"logs/{CONTAINER}.log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    upgraded.run("cancel", CONTAINER)
    assert upgraded.ended(CONTAINER)["phase"] == ("FAILED" if said.exists() else "CANCELLED")


def test_what_had_ended_is_listed_as_it_ended_and_tables_and_journal_agree(upgraded: Box) -> None:
    job = upgraded.job(ENDED)
    assert (job["name"], job["phase"], job["exit_code"]) == ("has-ended", "SUCCEEDED", 0)
    assert check(f"sqlite:///{upgraded.home}/ledger.db") == ()
