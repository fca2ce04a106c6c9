"""Checkpoints on a host: where a launch finds the last one, when it is told to save, and what is kept."""

import sys
import time
from dataclasses import replace
from pathlib import Path

from corral.core.model.runs.launch import Launch, LaunchPhase
from corral.core.ports.node import Keep
from tests.host.node.conftest import OVER, Host, a_launch, until
from tests.hung_mount import hung_mount

PRINTS = 'echo "dir $CORRAL_CHECKPOINT_DIR restore ${CORRAL_RESTORE-none}"; '
SAVES = 'mkdir -p "$CORRAL_CHECKPOINT_DIR" && cd "$CORRAL_CHECKPOINT_DIR" && echo state > step-1 && ln -s step-1 latest'
TOLD = "trap 'echo told' USR1; echo up; while :; do sleep 0.02; done"


def saving(number: int, *command: str, attempt: int = 1, dirs: tuple[str, ...] = ("checkpoint",)) -> Launch:
    launch = a_launch(number, *command)
    job = replace(launch.job, spec=replace(launch.job.spec, checkpoint_signal="USR1", checkpoint_grace_s=50.0))
    return replace(launch, job=job, allocation_id=f"{number}.{attempt}", checkpoint_dirs=dirs)


def ran(host: Host, launch: Launch, keep: Keep = Keep.NOTHING) -> None:
    """The launch has run, and its end is in the ledger."""
    host.node.launches.launch(launch)
    host.wait(launch.id, LaunchPhase.EXITED)
    host.node.launches.forget(launch.id, keep=keep)


def test_an_attempt_finds_what_the_one_before_has_named(host: Host) -> None:
    ran(host, saving(1, "sh", "-c", PRINTS + SAVES), Keep.ALL)
    ran(host, saving(1, "sh", "-c", PRINTS, attempt=2))
    saved = host.home.scratch_of("1") / "checkpoint"
    assert f"dir {saved} restore none\n" in host.log("1")
    assert f"dir {saved} restore {saved}/step-1\n" in host.log("1")
    assert f"goes on from the checkpoint {saved}/step-1 ($CORRAL_RESTORE), " in host.log("1")


def test_a_member_of_a_gang_finds_its_part_of_what_all_have_named(host: Host, tmp_path: Path) -> None:
    dirs = tuple(f"{tmp_path}/rank-{rank}" for rank in range(2))
    for rank in range(2):
        member = saving(1, "sh", "-c", PRINTS + SAVES, attempt=rank + 1, dirs=dirs)
        ran(host, replace(member, rank=rank, members=2))
    assert "restore none" in host.log("1")
    assert "restore none" in host.log("1.1")
    ran(host, replace(saving(1, "sh", "-c", PRINTS, attempt=3, dirs=dirs), rank=1, members=2))
    assert f"dir {dirs[1]} restore {dirs[1]}/step-1\n" in host.log("1.1")


def test_checkpoints_of_a_job_that_did_not_succeed_stay_where_they_are(host: Host) -> None:
    ran(host, saving(1, "sh", "-c", 'touch "$CORRAL_SCRATCH/cache"; ' + SAVES), Keep.CHECKPOINTS)
    scratch = host.home.scratch_of("1")
    until(lambda: [path.name for path in scratch.glob("*")] == ["checkpoint"], "the rest is removed")
    assert (scratch / "checkpoint/latest").read_text() == "state\n"
    ran(host, saving(1, "sh", "-c", PRINTS, attempt=2))
    assert f"restore {scratch}/checkpoint/step-1\n" in host.log("1")


def test_a_job_whose_directory_does_not_answer_does_not_begin_and_delays_no_other(host: Host, tmp_path: Path) -> None:
    hung = tmp_path / "hung"
    hung.mkdir()
    with hung_mount(hung):
        host.node.launches.launch(saving(1, "echo", "ran", dirs=(f"{hung}/saved",)))
        host.node.launches.launch(a_launch(2, "true"))
        host.wait("2.1", LaunchPhase.EXITED)
        report = host.wait("1.1", *OVER)
    assert report.phase is LaunchPhase.DECLARED_LOST
    assert report.reason == f"the directory of its checkpoints, {hung}/saved, does not answer in time"
    assert host.log("1") == ""


def test_while_it_goes_on_only_a_process_that_catches_the_signal_gets_it(host: Host) -> None:
    host.node.launches.launch(saving(1, "sh", "-c", "sleep 600 & " + TOLD))
    host.node.launches.launch(saving(2, "sh", "-c", "echo up; sleep 600; echo killed"))
    for log in ("1", "2"):
        until(lambda log=log: "up\n" in host.log(log), "the job says that it is up")  # type: ignore[misc]
    for count in (1, 2):
        for launch_id in ("1.1", "2.1"):
            host.node.launches.tell_to_save(launch_id, "USR1", None)
        until(lambda count=count: host.log("1").count("told\n") == count, "it is told")  # type: ignore[misc]
    assert host.phase("2.1") is LaunchPhase.RUNNING
    assert "killed" not in host.log("2")
    assert not (host.home.scratch_of("1") / "config/stop").exists()


ASKS = """
import time
from corral.checkpoint import is_preempted, on_checkpoint, remaining_s
asked = []
on_checkpoint(lambda: asked.append(1))
print(f"up {is_preempted()} {remaining_s()}", flush=True)
while not asked:
    time.sleep(0.01)
print(f"told {is_preempted()} {round(remaining_s(), -1)}", flush=True)
"""


def test_a_job_that_is_to_be_stopped_finds_out_when(host: Host) -> None:
    launch = saving(1, sys.executable, "-c", ASKS)
    host.node.launches.launch(replace(launch, env=(*launch.env, ("CORRAL_CHECKPOINT_SIGNAL", "USR1"))))
    until(lambda: "up False None\n" in host.log("1"), "the job says that it is up")
    host.node.launches.tell_to_save("1.1", "USR1", 50.0)
    host.wait("1.1", LaunchPhase.EXITED)
    assert "told True 50.0\n" in host.log("1")
    host.node.launches.forget("1.1", keep=Keep.ALL)
    ran(host, saving(1, "sh", "-c", 'ls "$CORRAL_SCRATCH/config"', attempt=2))
    assert "stop" not in host.log("1").splitlines()


def test_a_job_with_a_time_limit_knows_its_end_also_after_a_change(host: Host) -> None:
    launch = saving(1, "sleep", "600")
    limited = replace(launch, job=replace(launch.job, spec=replace(launch.job.spec, time_limit_s=3600.0)))
    host.node.launches.launch(limited)
    host.wait("1.1", LaunchPhase.RUNNING)
    stop = host.home.scratch_of("1") / "config/stop"
    before = float(stop.read_text().split()[0])
    host.node.launches.set_time_limit("1.1", 7200.0)
    after, by = stop.read_text().split()
    assert by == "limit"
    assert 3500 < float(after) - before < 3700


def test_a_report_says_when_the_last_whole_checkpoint_was_named(host: Host) -> None:
    before = time.time()
    host.node.launches.launch(saving(1, "sh", "-c", SAVES))
    host.node.launches.launch(saving(2, "true"))
    until(lambda: host.report("1.1").saved_at is not None, "it is looked for")
    saved_at = host.report("1.1").saved_at
    assert saved_at is not None
    assert before - 5 < saved_at < time.time() + 5
    assert host.report("2.1").saved_at is None
    for launch_id in ("1.1", "2.1"):
        host.wait(launch_id, LaunchPhase.EXITED)
        host.node.launches.forget(launch_id, keep=Keep.NOTHING)
