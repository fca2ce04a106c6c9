"""Jobs that meet in an MPS daemon, a stand-in for NVIDIA's: started for them, told of its death, stopped after them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.box import PATIENCE_S, Box, described, uuid

FAKE_CONTROL = Path(__file__).parents[1] / "vendors" / "nvidia" / "fake_mps_control.py"


def control_of(box: Box, *, before: str = "") -> Path:
    """The stand-in for NVIDIA's program, which first of all does `before`."""
    control = box.home / "mps-control"
    control.write_text(f"#!{sys.executable} -ISB\n{before}\n{FAKE_CONTROL.read_text()}")
    control.chmod(0o755)
    return control


@pytest.fixture
def mps_box(new_box: Callable[[str], Box]) -> Box:
    """A server on one device that is shared by MPS."""
    box = new_box(described(1))
    control = control_of(box)
    (box.home / "config.yaml").write_text(f"kill_grace: 1s\nsharing: mps\nmps_control: {control}\nretry_backoff: 0s\n")
    box.up()
    return box


def daemon_pid(box: Box) -> int | None:
    """The pid of the device's daemon, None when there is none."""
    try:
        written = (box.home / "mps" / uuid(0) / "pipe" / "nvidia-cuda-mps-control.pid").read_text()
    except FileNotFoundError:
        return None
    return int(written) if written.strip() else None


def say(box: Box, command: str) -> None:
    """A word to the daemon behind Corral's back."""
    base = box.home / "mps" / uuid(0)
    env = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(base / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(base / "log")}
    program = [box.home / "mps-control"]
    subprocess.run(program, input=command, text=True, env=env, timeout=PATIENCE_S, capture_output=True)


def test_clients_get_their_limits_and_the_daemon_goes_with_the_last_of_them(mps_box: Box) -> None:
    show = "env | grep ^CUDA_MPS | sort; exec sleep 60"
    jobs = [mps_box.submit("--gpus", "0.5", "--gpu-mem", "20G", "--share", "mps", "--", "sh", "-c", show) for _ in "ab"]
    for job in jobs:
        mps_box.until(lambda job=job: "PIPE" in mps_box.ok("logs", job))  # type: ignore[misc]
    pipe = mps_box.home / "mps" / uuid(0)
    assert mps_box.ok("logs", jobs[0]).splitlines() == [
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50",
        f"CUDA_MPS_LOG_DIRECTORY={pipe}/log",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=20480M",
        f"CUDA_MPS_PIPE_DIRECTORY={pipe}/pipe",
    ]
    assert mps_box.job(jobs[0])["enforcement"]["compute"] == "advisory"
    assert mps_box.job(jobs[0])["enforcement"]["reason"].startswith("no fence: ")
    assert daemon_pid(mps_box) is not None
    mps_box.ok("cancel", jobs[0])
    mps_box.ended(jobs[0])
    assert daemon_pid(mps_box) is not None
    mps_box.clear()
    mps_box.until(lambda: daemon_pid(mps_box) is None)


def test_the_daemon_is_no_stranger_on_its_device_and_nobody_else_can_pass_for_it(mps_box: Box) -> None:
    mps_box.submit("--gpus", "0.5", "--", "sleep", "60")
    pid = mps_box.until(lambda: daemon_pid(mps_box))
    worn = {"PATH": os.environ["PATH"], "CORRAL_HOME": str(mps_box.home), "CORRAL_JOB_ID": "mps"}
    with subprocess.Popen(["sleep", "60"], env=worn) as stranger:
        used = ", ".join(f'{{ pid = {one}, memory = "1G" }}' for one in (pid, stranger.pid))
        mps_box.describe(described(1, extra=f"processes = [{used}]"))

        def jobs() -> dict[int, str | None]:
            (device,) = mps_box.json("devices", "--json")
            return {process["pid"]: process["job"] for process in device["processes"]}

        mps_box.until(lambda: jobs() == {pid: "mps", stranger.pid: None})
        stranger.kill()


def test_a_whole_device_needs_no_daemon(mps_box: Box) -> None:
    job = mps_box.submit("--", "sleep", "60")
    mps_box.until_phase(job, "RUNNING")
    assert daemon_pid(mps_box) is None


def test_when_the_daemon_dies_its_clients_are_told_and_follow_their_retry_policy(mps_box: Box) -> None:
    once, again = (
        mps_box.submit("--gpus", "0.4", "--retries", retries, "--", "sh", "-c", "echo began; exec sleep 60")
        for retries in ("0", "1")
    )
    for job in (once, again):
        mps_box.until_phase(job, "RUNNING")
    first = daemon_pid(mps_box)
    assert first is not None
    say(mps_box, "crash")
    assert mps_box.ended(once)["phase"] == "LOST"
    assert f"the MPS daemon of {uuid(0)} failed" in mps_box.ok("logs", once)
    mps_box.until(lambda: mps_box.ok("logs", again).count("began") == 2)
    assert mps_box.job(again)["attempts"] == 2
    assert daemon_pid(mps_box) not in (None, first)


def test_the_daemon_itself_is_no_stranger_on_its_device(mps_box: Box) -> None:
    first = mps_box.submit("--gpus", "0.4", "--", "sleep", "60")
    mps_box.until_phase(first, "RUNNING")
    process = f'processes = [{{ pid = {daemon_pid(mps_box)}, memory = "30M" }}]'
    mps_box.describe(described(1, extra=process))
    mps_box.until(lambda: mps_box.json("devices", "--json")[0]["processes"])
    second = mps_box.submit("--gpus", "0.4", "--", "sleep", "60")
    mps_box.until_phase(second, "RUNNING")
    assert mps_box.json("devices", "--json")[0]["state"] == "allocated"


def test_a_share_over_several_devices_never_lands_on_mps(mps_box: Box) -> None:
    done = mps_box.run("submit", "--gpus", "1.2", "--", "true")
    assert (done.returncode, "--gpus" in done.stderr or "most you can ask" in done.stderr) == (2, True), done.stderr


def test_a_control_program_that_takes_its_time_holds_up_no_other_launch(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(2))
    gate = box.home / "gate"
    wait = f"import os, sys, time\nwhile '-d' in sys.argv and not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    settings = f"kill_grace: 1s\nsharing:\n  0: mps\n  1: timeslice\nmps_control: {control_of(box, before=wait)}\n"
    (box.home / "config.yaml").write_text(settings)
    box.up()
    slow = box.submit("--gpus", "0.5", "--share", "mps", "--", "sleep", "60")
    other = box.submit("--gpus", "0.5", "--share", "timeslice", "--", "sleep", "60")
    box.until_phase(other, "RUNNING")
    box.until_phase(slow, "STARTING")
    gate.touch()
    box.until_phase(slow, "RUNNING")


def test_a_job_that_is_cancelled_while_its_daemon_starts_ends_at_once_and_the_daemon_goes_after_it(
    new_box: Callable[[str], Box],
) -> None:
    box = new_box(described(1))
    gate = box.home / "gate"
    wait = f"import os, sys, time\nwhile '-d' in sys.argv and not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    (box.home / "config.yaml").write_text(f"sharing: mps\nmps_control: {control_of(box, before=wait)}\n")
    box.up()
    job = box.submit("--gpus", "0.5", "--", "sleep", "60")
    box.until_phase(job, "STARTING")
    box.ok("cancel", job)
    assert box.ended(job)["phase"] == "CANCELLED"
    gate.touch()
    next_ = box.submit("--gpus", "0.5", "--", "sleep", "60")
    box.until_phase(next_, "RUNNING")
    assert daemon_pid(box) is not None
    box.clear()
    box.until(lambda: daemon_pid(box) is None)


def test_a_site_without_the_program_gives_its_devices_whole_and_says_so(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    (box.home / "config.yaml").write_text("sharing: mps\nmps_control: /nowhere/mps-control\n")
    box.up()
    assert box.json("devices", "--json")[0]["means"] == "exclusive"
    assert "/nowhere/mps-control is not installed here" in (box.home / "server.log").read_text()
    refused = box.run("submit", "--gpus", "0.5", "--share", "mps", "--", "true")
    assert refused.returncode == 2, refused.stderr


@pytest.mark.parametrize("known", [True, False])
def test_several_users_are_let_meet_only_where_the_program_knows_how(
    new_box: Callable[[str], Box], known: bool
) -> None:
    box = new_box(described(1))
    control = control_of(box)
    if not known:
        control.write_text(control.read_text().replace("-multiuser-server", "-another"))
    (box.home / "config.yaml").write_text(f"sharing: mps\nmps_multi_user: true\nmps_control: {control}\n")
    box.up()
    log = (box.home / "server.log").read_text()
    assert ("has no option -multiuser-server" in log, "one user at a time" in log) == (not known, not known)
    job = box.submit("--gpus", "0.5", "--", "sleep", "60")
    box.until_phase(job, "RUNNING")
