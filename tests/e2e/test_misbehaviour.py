"""Jobs that do not want to end, or print what no job should: through a whole server."""

import hashlib
import os
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import corral
from corral.client import Client
from corral.host.runtimes.process.procfs import descendants
from tests.e2e.box import PATIENCE_S, Box, described, line_of, until_there

pytestmark = pytest.mark.long

IGNORES_SIGTERM = "trap '' TERM; echo up; while :; do sleep 1; done"
DAEMONISES = "setsid sh -c 'setsid sleep 300 & setsid sleep 300 &' & "
FORK_BOMB = (
    "b() { i=0; while [ $i -lt 30 ]; do sleep 300 & i=$((i+1)); done; }; b; for n in 1 2 3 4; do (b) & done; wait"
)


def marked(job_id: str, box: Box) -> list[int]:
    """Processes on this machine that carry the job's environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if {f"CORRAL_JOB_ID={job_id}".encode(), f"CORRAL_HOME={box.home}".encode()} <= set(variables):
            found.append(int(entry.name))
    return found


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    (box.home / "config.yaml").write_text("kill_grace: 0.2s\n")
    box.up()
    job = box.submit("--", "sh", "-c", IGNORES_SIGTERM)
    box.until(lambda: "up" in box.ok("logs", job))
    box.ok("cancel", job)
    row = box.ended(job)
    assert (row["phase"], row["signal"], row["exit_code"]) == ("CANCELLED", 9, 137)


def test_a_time_limit_ends_a_job_and_says_so(box: Box) -> None:
    assert box.run("run", "--time", "0.2s", "--", "sleep", "60").returncode == 124


def test_a_job_that_keeps_stopping_its_supervisor_does_not_outlive_its_time_limit(
    new_box: Callable[[str], Box],
) -> None:
    box = new_box(described(1))
    (box.home / "config.yaml").write_text("kill_grace: 0.2s\n")
    box.up()
    script = "trap '' TERM; while kill -STOP $PPID; do :; done & while :; do sleep 1; done"
    row = box.ended(box.submit("--time", "1s", "--", "sh", "-c", script))
    assert row["phase"] == "TIMED_OUT"
    assert "its time limit of 1s" in row["reason"]
    assert marked(row["id"], box) == []


def test_a_server_comes_down_and_up_again_around_a_stopped_zygote(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    box.up()
    server = int((box.home / "corral.pid").read_text())
    # Parents come before children, and what it forks has its name for a moment.
    zygote = next(pid for pid in descendants(server) if Path(f"/proc/{pid}/comm").read_text() == "corral-zygote\n")
    os.kill(zygote, signal.SIGSTOP)
    jobs = [box.submit("--gpus", "0", "--", "echo", "ran") for _ in range(3)]
    box.down()
    box.up()
    for job in jobs:
        assert box.ended(job)["phase"] == "SUCCEEDED"
        assert box.ok("logs", job) == "ran\n"


@pytest.mark.parametrize("left", ["mkfifo", "mkdir", "ln -s /dev/zero"])
def test_a_job_that_replaces_its_log_ends_as_it_would(box: Box, left: str) -> None:
    job = box.submit(
        "--", "sh", "-c", f"log=$CORRAL_HOME/logs/$CORRAL_JOB_ID.log; rm $log; {left} $log; echo x; exit 3"
    )
    assert (box.ended(job)["phase"], box.ended(job)["exit_code"]) == ("FAILED", 3)


@pytest.mark.parametrize("end", ["by itself", "by cancel"])
def test_daemons_end_with_the_job_that_made_them(box: Box, tmp_path: Path, end: str) -> None:
    gate = tmp_path / "gate"
    job = box.submit("--", "sh", "-c", DAEMONISES + until_there(gate))
    box.until(lambda: len(marked(job, box)) >= 3)
    if end == "by cancel":
        box.ok("cancel", job)
    else:
        gate.touch()
    box.ended(job)
    assert marked(job, box) == []


def test_a_fork_bomb_leaves_nothing(box: Box) -> None:
    job = box.submit("--", "sh", "-c", FORK_BOMB)
    box.until(lambda: len(marked(job, box)) > 120)
    box.ok("cancel", job)
    assert box.ended(job)["phase"] == "CANCELLED"
    assert marked(job, box) == []


def test_a_gigabyte_of_output_ends_as_a_capped_log_with_its_tail(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    with (box.home / "config.yaml").open("a") as settings:
        settings.write("log_max: 1M\n")
    box.up()
    script = "head -c 1073741824 /dev/zero; echo the last line"
    loud = box.submit("--name", "loud", "--", "sh", "-c", script)
    row = box.ended(loud, within_s=4 * PATIENCE_S)
    for told in (box.ok("show", loud), box.ok("why", loud)):
        assert "1023 MiB of output are missing before its end, where it says so" in told
    log = box.home / "logs" / f"{row['id']}.log"
    assert row["exit_code"] == 0
    assert log.stat().st_size < 2 * 1024 * 1024
    assert log.read_bytes().endswith(b"the last line\n")


def test_a_full_log_disk_costs_the_log_and_not_the_job(new_box: Callable[[str], Box]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk that is small enough to fill")
    box = new_box(described(1))
    (box.home / "logs").mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "corral-test", str(box.home / "logs")], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        box.up()
        done = box.run("run", "--", "sh", "-c", "head -c 3000000 /dev/zero; exit 5")
        assert done.returncode == 5
        assert "failed with exit code 5: cannot write the log: No space left on device" in done.stderr
        assert "bytes of output are missing here (cannot write the log" in box.ok("logs", "1")[-200:]
    finally:
        box.down()
        # Lazily: the last supervisor may not have let go of its log yet.
        subprocess.run(["umount", "--lazy", str(box.home / "logs")], check=True)


def test_on_a_full_disk_nothing_starts_and_everybody_is_told_so_until_there_is_room(
    new_box: Callable[[str], Box],
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk that is small enough to fill")
    box = new_box(described(1))
    disk = box.home / "launches"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "corral-test", str(disk)]).returncode:
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        box.up()
        fill = disk / ".fill"
        fill.write_bytes(bytes(480 * 1024))
        full = f"the disk that {disk} is on is full; free some space there"
        waiting = box.start("run", "--", "sh", "-c", "echo it ran")
        assert line_of(waiting.stderr, full)
        (row,) = box.json("ps", "--json")
        assert (row["phase"], row["wait"]) == ("PENDING", "Disk")
        assert full in box.ok("why", row["id"])
        assert "nothing starts now: the disk" in box.ok("status")
        sick = box.run("doctor", "--json")
        assert (sick.returncode, f"nothing starts now: {full}" in sick.stdout) == (1, True)
        fill.unlink()
        assert waiting.communicate(timeout=PATIENCE_S)[0] == "it ran\n"
        assert (waiting.returncode, box.job(row["id"])["attempts"]) == (0, 1)
    finally:
        box.down()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_server_that_a_full_disk_keeps_from_starting_says_so(new_box: Callable[[str], Box]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk that is small enough to fill")
    box = new_box(described(1))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "corral-test", str(box.home)]).returncode:
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        (box.home / "fill").write_bytes(bytes(64 * 1024))
        example = Path(corral.__file__).parent / "host" / "telemetry" / "data" / "mock-8gpu.toml"
        done = box.run("up", "--detach", "--mock", str(example))
        assert done.returncode == 1
        assert f"the disk that {box.home} is on is full" in " ".join(done.stderr.split())
    finally:
        subprocess.run(["umount", "--lazy", str(box.home)], check=True)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_whose_record_was_destroyed_is_lost_and_not_run_twice(
    new_box: Callable[[str], Box], tmp_path: Path, restarted: bool
) -> None:
    box = new_box(described(1))
    box.up()
    runs = tmp_path / "runs"
    gate = tmp_path / "gate"
    script = f"echo run >> {runs}; {until_there(gate)}; rm -r $CORRAL_HOME/launches/*; sleep 1"
    job = box.submit("--", "sh", "-c", script)
    box.until_phase(job, "RUNNING")
    gate.touch()
    box.until(lambda: not list((box.home / "launches").glob("*.1")))
    if restarted:
        box.down()
        box.up()
    row = box.ended(job)
    assert (row["phase"], row["exit_code"]) == ("LOST", None)
    assert "record" in row["reason"]
    assert runs.read_text() == "run\n"


TAMPERED = {
    "a claim of one number": """echo '{"claimed_at":1}' > claim""",
    "a claim of nothing": ": > claim",
    "a claim that is a fifo": "rm claim; mkfifo claim",
    "a claim that is a directory": "rm claim; mkdir claim",
    "a claim that declares it lost": "echo "
    """'{"claimed_at": 1, "holder": null, "declared_lost": true, "message": "", "ran": false}' > claim""",
    "an exit of nonsense": "echo '{\"exit_code\": 1e999}' > exit; kill -9 $PPID",
    "an exit that is a fifo": "rm exit.room; mkfifo exit exit.room; kill -9 $PPID",
}


def test_a_pid_file_that_a_job_replaced_leads_down_to_no_other_server_and_holds_nobody_up(
    new_box: Callable[[str], Box],
) -> None:
    box, other = new_box(described(1)), new_box(described(1))
    box.up()
    other.up()
    box.ended(box.submit("--", "cp", str(other.home / "corral.pid"), str(box.home / "corral.pid")))
    box.down()
    os.mkfifo(box.home / "corral.pid")
    box.up_by_command()
    assert other.ok("run", "--", "echo", "unharmed") == "unharmed\n"


@pytest.mark.parametrize("name", ["server.log", "supervisor.log"])
def test_a_log_of_the_server_that_a_job_replaced_by_a_fifo_is_told_and_holds_nobody_up(
    new_box: Callable[[str], Box], name: str
) -> None:
    box = new_box(described(1))
    os.mkfifo(box.home / name)
    refused = box.run("up", "--detach", "--mock", str(box.mock))
    assert refused.returncode == 1
    assert str(box.home / name) in refused.stderr
    (box.home / name).unlink()
    box.up()


def tag_of(home: Path) -> str:
    """By which the cgroups of a home's jobs are known."""
    return hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:12]


def left_by_jobs(box: Box) -> list[Path]:
    """What lies below the directories that jobs are given, and the cgroups made for them."""
    bases = [box.home / "scratch", box.home / "launches"]
    for line in Path("/proc/self/mounts").read_text().splitlines():
        where, kind = line.split(" ")[1:3]
        if kind.startswith("cgroup"):
            bases += [Path(found) for found, _, _ in os.walk(where) if found.endswith(f"/corral-{tag_of(box.home)}")]
    return [Path(found.path) for base in bases for found in os.scandir(base) if found.is_dir() and found.name[0] != "."]


def some_have_ended(box: Box, array: str) -> bool:
    with Client(box.home) as client:
        return any(row.phase.terminal for row in client.jobs.list(all=True, array=array))


def test_nothing_stays_of_jobs_around_whose_ends_the_server_was_killed(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(2))
    box.up()
    filling = (
        "mkdir -p $CORRAL_SCRATCH/some/where; echo x > $CORRAL_SCRATCH/some/where/file; chmod a-w $CORRAL_SCRATCH/some"
    )

    for gpus in ("0", "1"):
        array = box.submit("--gpus", gpus, "--array", "0-9", "--", "sh", "-c", filling)
        box.until(partial(some_have_ended, box, array))
        box.kill()
        box.up()
    kept = box.submit("--", "sh", "-c", f"{filling}; sleep 300")
    with Client(box.home) as client:
        client.wait([row.id for row in client.jobs.list(limit=None) if row.id != kept], PATIENCE_S)
    box.until(lambda: {path.name.partition(".")[0] for path in left_by_jobs(box)} == {kept})
    box.until((box.home / "scratch" / kept / "some" / "where" / "file").exists)
    box.clear()
    box.until(lambda: left_by_jobs(box) == [])


def test_jobs_that_tamper_with_their_records_are_lost_and_every_next_server_comes_up(
    new_box: Callable[[str], Box], tmp_path: Path
) -> None:
    box = new_box(described(len(TAMPERED)))
    box.up()
    gate = tmp_path / "gate"
    script = f"{until_there(gate)}; cd $CORRAL_HOME/launches/$CORRAL_JOB_ID.1; {{}}; sleep 300"
    jobs = {what: box.submit("--", "sh", "-c", script.format(tampering)) for what, tampering in TAMPERED.items()}
    for job in jobs.values():
        box.until_phase(job, "RUNNING")
    gate.touch()
    for _ in range(2):
        box.kill()
        box.up()
    for what, job in jobs.items():
        row = box.ended(job)
        assert (what, row["phase"]) == (what, "LOST")
        assert f"launches/{job}.1/{'exit' if 'exit' in what else 'claim'}" in row["reason"]
        assert marked(job, box) == []
    assert box.ok("run", "--", "echo", "unharmed") == "unharmed\n"


def test_a_job_that_removes_all_directories_of_its_server_costs_only_itself(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    box.up()
    directories = " ".join(f"$CORRAL_HOME/{name}" for name in ("launches", "claims", "logs", "scratch"))
    job = box.submit("--", "sh", "-c", f"sleep 0.5; rm -rf {directories}; sleep 300")
    row = box.ended(job)
    assert (row["phase"], row["exit_code"]) == ("LOST", None)
    assert marked(job, box) == []
    assert box.ok("run", "--", "echo", "unharmed") == "unharmed\n"
