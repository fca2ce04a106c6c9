"""Urgent work has less urgent work make room, which may save what it has, and comes back to its place."""

import time
from collections.abc import Callable

from tests.e2e.box import Box, described, until_there

SETTINGS = """\
kill_grace: 1s
queues:
- {name: urgent, preempts: true}
"""
SAVES_WHEN_TOLD = "trap 'echo saved; exit 9' USR1; echo up; while :; do sleep 0.1; done"


def test_a_job_that_makes_room_is_told_first_and_comes_back(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    (box.home / "config.yaml").write_text(SETTINGS)
    box.up()
    saver = box.submit("--priority", "9", "--checkpoint-signal", "USR1@30s", "--", "sh", "-c", SAVES_WHEN_TOLD)
    box.until(lambda: "up" in box.ok("logs", saver))
    urgent = box.submit("--queue", "urgent", "--priority", "1", "--", "true")
    assert box.ended(urgent)["phase"] == "SUCCEEDED"
    assert "saved" in box.ok("logs", saver)
    box.until(lambda: box.job(saver)["attempts"] == 2 and box.job(saver)["phase"] == "RUNNING")


LIMITED = """\
kill_grace: 1s
policies: {enable_preemption: true, max_gpus_per_user: 2}
queues: [{name: default, quota: {running: 9}}]
"""


def test_ones_own_less_urgent_job_makes_room_within_ones_own_quota(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(4))
    (box.home / "config.yaml").write_text(LIMITED)
    box.up()
    stays, goes = (box.submit("--", "sh", "-c", "echo up; sleep 600") for _ in "12")
    box.until(lambda: "up" in box.ok("logs", stays) and "up" in box.ok("logs", goes))
    asked = box.json("submit", "--dry-run", "--json", "--priority", "1", "--", "true")
    assert asked["expected_start"] < time.time() + 60
    urgent = box.submit("--priority", "1", "--", "sh", "-c", until_there(box.home / "done"))
    box.until_phase(urgent, "RUNNING")
    assert box.job(stays)["phase"] == "RUNNING"
    words = f"job {urgent} has priority 1 and goes before 5 in the quota of user"
    assert words in box.json("why", goes, "--json")["reason"]
    assert words in box.ok("logs", goes)
    equal = box.submit("--", "true")
    assert "user" in box.json("why", equal, "--json")["reason"]
    (box.home / "done").touch()
    box.until(lambda: box.job(goes)["attempts"] == 2 and box.job(goes)["phase"] == "RUNNING")
    box.ok("cancel", goes)
    assert box.ended(equal)["phase"] == "SUCCEEDED"


LENDING = """\
kill_grace: 1s
queues:
- {name: lab, quota: {gpus: 2}}
- {name: a, parent: lab, quota: {gpus: 1, borrow: 1}, spared: 3s}
- {name: b, parent: lab, quota: {gpus: 1, borrow: 1}}
"""


def test_what_is_taken_back_leaves_its_trace_with_everybody(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(2))
    (box.home / "config.yaml").write_text(LENDING)
    box.up()
    stays, goes = (box.submit("--queue", "a", "--time", "48h", "--", "sh", "-c", "echo up; sleep 600") for _ in "12")
    box.until(lambda: "up" in box.ok("logs", stays) and "up" in box.ok("logs", goes))
    asked = box.json("submit", "--dry-run", "--json", "--queue", "b", "--", "true")
    assert asked["expected_start"] < time.time() + 60, "the lender takes back"
    lender = box.submit("--queue", "b", "--time", "1h", "--", "sh", "-c", until_there(box.home / "done"))
    box.until_phase(lender, "RUNNING")
    row = box.until(lambda: next((row for row in box.json("ps", "--json") if row["evictions"] and row["wait"]), None))
    eviction = row["eviction"]
    assert (row["phase"], row["wait"]) == ("PENDING", "Reclaimed")
    assert (eviction["rule"], eviction["for_job_id"], eviction["lender"]) == ("queue-reclaim", lender, "b")
    assert row["lost_s"] == eviction["lost_s"] == eviction["ran_s"] > 2
    words = f"queue b reclaims for job {lender} what it had lent to queue a"
    told = box.json("why", row["id"], "--json")
    assert f"It was reclaimed for job {lender}" in told["reason"]
    assert words in told["reason"]
    assert "that it had run are lost" in told["reason"]
    assert (told["expected_start_is"], told["eviction"]) == ("expectation", eviction)
    log = box.ok("logs", row["id"])
    assert f"corral: reclaimed for job {lender}: {words}" in log
    box.until(lambda: "corral: it is expected to go on within " in box.ok("logs", row["id"]))
    assert f"job {row['id']}: reclaimed for job {lender}: {words}" in (box.home / "server.log").read_text()
    assert box.json("usage", "--json")["total"]["lost_hours"] > 2 / 3600
    (box.home / "done").touch()
    box.until_phase(row["id"], "RUNNING")
    assert f"corral: attempt 2 begins; it goes on after it was reclaimed for job {lender}; the" in box.ok(
        "logs", row["id"]
    )
    assert f"was reclaimed for job {lender}" in box.ok("why", row["id"])


def test_a_signal_that_is_none_is_refused(box: Box) -> None:
    done = box.run("submit", "--checkpoint-signal", "KILL@10s", "--", "true")
    assert done.returncode == 2
    assert "USR1, USR2" in done.stderr
