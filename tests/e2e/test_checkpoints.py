"""A job that saves its work goes on from its last whole checkpoint."""

import sys
from collections.abc import Callable
from pathlib import Path

from tests.e2e.box import Box, described

SAVES = """
import os, sys, time
from corral.checkpoint import CheckpointManager, on_checkpoint
manager = CheckpointManager()
state = manager.restore_checkpoint("work") or {"attempts": 0}
state["attempts"] += 1
print("restore", os.environ.get("CORRAL_RESTORE"), "attempt", state["attempts"], flush=True)
manager.save_checkpoint("work", state)
if state["attempts"] == 1:
    sys.exit(3)
"""


def test_the_next_attempt_goes_on_from_what_the_last_has_saved(box: Box) -> None:
    job = box.submit(
        "--gpus", "1", "--retries", "1", "--checkpoint-signal", "USR1@10s", "--", sys.executable, "-c", SAVES
    )
    assert box.ended(job)["phase"] == "SUCCEEDED"
    saved = box.home / "scratch" / job / "checkpoint/work.ckpt"
    log = box.ok("logs", job)
    assert "restore None attempt 1" in log
    assert f"restore {saved} attempt 2" in log
    assert f"goes on from the checkpoint {saved} ($CORRAL_RESTORE)" in log


KEEPS_ON = """
import os, sys, time
from corral.checkpoint import CheckpointManager, is_preempted, on_checkpoint
manager, asked = CheckpointManager(), []
state = manager.restore_checkpoint("work") or {"saves": 0}
on_checkpoint(lambda: asked.append(1))
print("up from", state["saves"], flush=True)
while True:
    time.sleep(0.01)
    if asked:
        asked.clear()
        state["saves"] += 1
        manager.save_checkpoint("work", state)
        print("saved", state["saves"], "preempted", is_preempted(), flush=True)
"""
SETTINGS = """\
kill_grace: 1s
checkpoint_keep: 1h
queues:
- {name: urgent, preempts: true}
"""


def test_a_running_job_saves_at_its_interval_and_before_it_makes_room_and_goes_on(
    new_box: Callable[[str], Box],
) -> None:
    box = new_box(described(1))
    (box.home / "config.yaml").write_text(SETTINGS)
    box.up()
    options = ("--checkpoint-signal", "USR1@3s", "--checkpoint-every", "1s", "--priority", "9")
    job = box.submit(*options, "--", "sh", "-c", 'sleep 600 & exec "$0" -c "$1"', sys.executable, KEEPS_ON)
    box.until(lambda: "saved 2 preempted False" in box.ok("logs", job))
    box.until(lambda: box.json("show", job, "--json")["saved_at"] is not None)
    assert "saves      in its scratch, USR1 3s before a stop and every 1s" in box.ok("show", job)
    urgent = box.submit("--queue", "urgent", "--priority", "1", "--", "true")
    assert box.ended(urgent)["phase"] == "SUCCEEDED"
    assert "preempted True" in box.ok("logs", job)
    box.until(lambda: box.job(job)["attempts"] == 2 and "goes on from the checkpoint" in box.ok("logs", job))
    box.until(lambda: box.ok("logs", job).count("up from") == 2)
    assert box.json("show", job, "--json")["lost_s"] < 5
    saves = [line for line in box.ok("logs", job).splitlines() if line.startswith("up from")]
    assert saves[0] == "up from 0"
    assert int(saves[1].split()[-1]) >= 3
    box.ok("cancel", job)
    scratch = box.home / "scratch" / job
    box.until(lambda: [path.name for path in scratch.glob("*")] == ["checkpoint"])


def test_a_job_that_failed_for_good_goes_on_from_what_was_kept_if_it_is_run_again(box: Box) -> None:
    job = box.submit("--checkpoint-signal", "USR1@10s", "--", sys.executable, "-c", SAVES)
    assert box.ended(job)["phase"] == "FAILED"
    scratch = box.home / "scratch" / job
    box.until(lambda: [path.name for path in scratch.glob("*")] == ["checkpoint"])
    box.ok("requeue", job)
    box.until_phase(job, "SUCCEEDED")
    assert f"restore {scratch}/checkpoint/work.ckpt attempt 2" in box.ok("logs", job)
    box.until(lambda: not scratch.exists() and not list(scratch.parent.glob(".*.kept")))


def test_a_shared_directory_is_restored_from_by_the_job_after(box: Box, tmp_path: Path) -> None:
    options = ("--checkpoint-dir", str(tmp_path / "saved"), "--", sys.executable, "-c", SAVES)
    first = box.submit(*options)
    assert box.ended(first)["exit_code"] == 3
    second = box.submit(*options)
    assert box.ended(second)["phase"] == "SUCCEEDED"
    assert f"restore {tmp_path}/saved/work.ckpt attempt 2" in box.ok("logs", second)


def test_what_cannot_be_done_is_refused_by_the_flag(box: Box) -> None:
    for flags, said in (
        (("--checkpoint-every", "10m"), "checkpoint_every: the job names no signal"),
        (("--checkpoint-every", "soon", "--checkpoint-signal", "USR1"), "--checkpoint-every: 'soon'"),
        (("--checkpoint-dir", "here", "--array", "0-1"), "as in here/%a"),
    ):
        done = box.run("submit", *flags, "--", "true")
        assert done.returncode == 2
        assert said in done.stderr
