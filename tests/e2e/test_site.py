"""A site's queues, quotas and limits on a real server, changed while it serves."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.core.ledger.store import open_ledger
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from tests.core.ledger.making import attempt, submitted, write
from tests.e2e.box import Box, described, serving, until_there, uuid

SETTINGS = """\
kill_grace: 1s
retry_backoff: 0.1s
policies: {max_gpus_per_user: 3, max_job_duration_hours: 2}
fault_tolerance: {auto_retry_failed_jobs: true, max_retries: 2}
labels: {zone: a}
queues:
- {name: night, quota: {gpus: 1}}
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Box]:
    with serving(described(4), SETTINGS) as box:
        yield box


def reloaded(box: Box, text: str) -> str:
    """What the server's log says of a change of the settings."""
    log: Path = box.home / "server.log"
    before = len(log.read_text())
    (box.home / "config.yaml").write_text(text)
    os.kill(int((box.home / "corral.pid").read_text().split()[0]), signal.SIGHUP)
    return str(
        box.until(lambda: "the settings were" in (said := log.read_text()[before:]) and said.endswith("\n") and said)
    )


def test_a_job_in_a_queue_waits_for_its_quota_and_the_server_can_be_told_a_larger_one(site: Box) -> None:
    first = site.submit("--queue", "night", "--", "sleep", "60")
    second = site.submit("--queue", "night", "--", "sleep", "60")
    site.until_phase(first, "RUNNING")
    site.until(lambda: "queue night uses 1 of at most 1" in site.ok("why", second))
    assert site.json("ps", "--start", "--json")[0]["expected_start"] is not None
    assert "the settings were reloaded" in reloaded(site, SETTINGS.replace("quota: {gpus: 1}", "quota: {gpus: 2}"))
    site.until_phase(second, "RUNNING")


def test_a_mistake_in_new_settings_leaves_those_before_in_force(site: Box) -> None:
    said = reloaded(site, "queues:\n- {name: night, polcy: fcfs}\n")
    assert "the settings were not reloaded" in said
    assert "line 2: queue.polcy is not a setting; did you mean 'policy'?" in said
    assert site.run("submit", "--queue", "nigth", "--", "true").stderr == (
        "corral: there is no queue 'nigth' here; did you mean 'night'?\n"
    )


def test_a_reload_says_what_has_changed_what_waits_and_what_is_wrong(site: Box) -> None:
    config = site.home / "config.yaml"
    reloaded(site, SETTINGS)
    config.write_text(SETTINGS.replace("quota: {gpus: 1}", "quota: {gpus: 1.5}") + "log_max: 7M\n")
    lines = site.ok("config", "reload").splitlines()
    assert [line for line in lines if "night" in line] == ["queues.night.quota.gpus: 1 -> 1.5"]
    assert [line for line in lines if "log_max" in line] == ["after a restart: log_max: 100M -> 7M"]
    config.write_text("queues:\n- {name: night, polcy: fcfs}\n")
    wrong = site.run("config", "reload")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "line 2: queue.polcy is not a setting; did you mean 'policy'?" in wrong.stderr
    config.write_text(SETTINGS)
    assert "queues.night.quota.gpus: 1.5 -> 1" in site.ok("config", "reload")


def test_a_job_may_ask_for_a_label_that_the_site_has_given_its_host(site: Box) -> None:
    there = site.submit("--label", "zone=a", "--gpus", "0", "--", "true")
    site.until_phase(there, "SUCCEEDED")
    elsewhere = site.run("submit", "--label", "zone=b", "--", "true")
    assert elsewhere.returncode == 2
    assert "no node has the label zone=b; zone is one of a" in elsewhere.stderr


def test_what_the_site_rules_out_is_refused_with_what_it_allows(site: Box) -> None:
    too_wide = site.run("submit", "--gpus", "4", "--", "true")
    too_long = site.run("submit", "--time", "3h", "--", "true")
    assert (too_wide.returncode, too_long.returncode) == (2, 2)
    assert "may use at most 3 GPUs at a time, but this job asks for 4" in too_wide.stderr
    assert "a time limit of 3h is more than the 2h that this site allows" in too_long.stderr


def test_a_failed_job_is_tried_again_as_often_as_the_site_says(site: Box) -> None:
    job = site.submit("--gpus", "0", "--", "false")
    assert site.ended(job)["attempts"] == 3
    once = site.submit("--gpus", "0", "--retries", "0", "--", "false")
    assert (site.ended(once)["attempts"], site.job(once)["time_limit_s"]) == (1, 7200.0)


LENDING = """\
kill_grace: 1s
queues:
- {name: research}
- {name: vision, parent: research, quota: {gpus: 1, borrow: 1}}
- {name: speech, parent: research, quota: {gpus: 1, borrow: 1}}
projects:
- {name: lab}
pools:
- {name: own, gpus: [2, 3], projects: [lab], lends: true}
"""


def test_what_was_lent_comes_back_to_its_owner_and_the_borrower_to_its_queue(new_box: Callable[[str], Box]) -> None:
    site = new_box(described(4))
    (site.home / "config.yaml").write_text(LENDING)
    site.up()
    borrowers = [site.submit("--queue", "vision", "--", "sleep", "60") for _ in range(2)]
    guests = [site.submit("--", "sleep", "60") for _ in range(2)]
    for job in borrowers + guests:
        site.until_phase(job, "RUNNING")
    owner = site.submit("--project", "lab", "--gpus", "2", "--", "sleep", "2")
    lender = site.submit("--queue", "speech", "--", "sleep", "2")
    assert (site.ended(owner)["phase"], site.ended(lender)["phase"]) == ("SUCCEEDED", "SUCCEEDED")
    assert site.job(owner)["devices"] == [uuid(2), uuid(3)]
    for job in borrowers + guests:
        site.until_phase(job, "RUNNING")


FORGIVING = """\
kill_grace: 1s
fair_share_half_life: 1h
scheduling: {algorithm: fair-share}
projects: [{name: early}, {name: late}]
"""


def test_what_was_used_long_ago_is_forgiven_as_fast_as_the_site_says(
    new_box: Callable[[str], Box], tmp_path: Path
) -> None:
    site, gate, now = new_box(described(1)), tmp_path / "gate", time.time()
    (site.home / "config.yaml").write_text(FORGIVING)
    ledger = open_ledger(f"sqlite:///{site.home / 'ledger.db'}")
    for project, ago_s, held_s in (("early", 86_400.0, 600.0), ("late", 60.0, 60.0)):
        (job_id,) = ledger.next_ids(1)
        start, end = now - ago_s - held_s, now - ago_s
        job = Job(job_id, int(job_id), JobSpec(user="alice", project=project), start)
        write(ledger, submitted(job), *attempt(job, 1, start, end, Phase.SUCCEEDED))
    ledger.close()
    site.up()
    holder = site.submit("--", "sh", "-c", until_there(gate))
    site.until_phase(holder, "RUNNING")
    late, early = (site.submit("--project", project, "--", "true") for project in ("late", "early"))
    gate.touch()
    assert site.ended(early)["started_at"] < site.ended(late)["started_at"]
