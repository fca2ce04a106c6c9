"""The other commands as a user meets them, on a real server with real processes."""

import os
import pwd
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import corral
from corral.cli.local.doctor import check_server
from corral.client import Client
from corral.core.model.home import Home
from tests.e2e.box import COMMAND_S, CORRAL, PATIENCE_S, Box, described, line_of, until_there, uuid

PS_KEYS = {
    "id", "array_id", "array_index", "name", "user", "phase", "exit_code", "signal", "reason", "devices", "priority",
    "submitted_at", "started_at", "ended_at", "attempts",
}  # fmt: skip
STATUS_KEYS = {
    "uuid", "index", "name", "state", "memory_total_mib", "memory_used_mib", "utilization_pct", "temperature_c",
    "power_w", "holders", "processes",
}  # fmt: skip


def states(box: Box) -> list[str]:
    return [device["state"] for device in box.json("status", "--json")]


def test_ps_lists_every_job_with_the_keys_that_scripts_rely_on(box: Box) -> None:
    job_id = box.submit("--name", "keys", "--", "true")
    row = box.ended(job_id)
    assert set(row) >= PS_KEYS
    assert (row["phase"], row["exit_code"], row["signal"], row["name"]) == ("SUCCEEDED", 0, None, "keys")
    assert row["submitted_at"] < row["started_at"] < row["ended_at"] <= time.time()
    assert len(row["devices"]) == 1
    assert job_id not in [row["id"] for row in box.json("ps", "--json")]


def test_status_lists_every_device_with_the_keys_that_scripts_rely_on(box: Box) -> None:
    job_id = box.submit("--gpus", "2", "--", "sleep", "60")
    box.until(lambda: states(box).count("allocated") == 2)
    devices = box.json("status", "--json")
    assert all(set(device) >= STATUS_KEYS for device in devices)
    assert [device["uuid"] for device in devices] == [uuid(index) for index in range(4)]
    (holder,) = next(device for device in devices if device["state"] == "allocated")["holders"]
    assert (holder["job"], holder["share_milli"]) == (job_id, 1000)


@pytest.mark.parametrize("words", [["ps"], ["ps", "--all"], ["status"], ["devices"]])
def test_tables_are_plain_and_whole_when_they_are_piped(box: Box, words: list[str]) -> None:
    name = "a-rather-long-name-for-a-job"
    box.submit("--name", name, "--", "sleep", "60")
    table = box.ok(*words)
    assert "…" not in table
    assert "\033" not in table
    assert words[0] != "ps" or name in table


def test_a_name_that_the_output_has_no_letters_for_is_written_as_escapes(box: Box) -> None:
    box.submit("--name", "naïve", "--", "sleep", "60")
    assert "na\\xefve" in box.ok("ps", PYTHONIOENCODING="ascii")


def test_a_limited_listing_has_what_is_under_way_then_the_newest_and_says_that_there_is_more(box: Box) -> None:
    running = box.submit("--gpus", "4", "--", "sleep", "60")
    waiting = [box.submit("--", "true") for _ in range(3)]
    box.until_phase(running, "RUNNING")
    told = box.run("ps", "--limit", "2")
    assert [line.split()[0] for line in told.stdout.splitlines()] == ["ID", running, waiting[-1]]
    assert "only 2 jobs are listed, those under way and the newest others" in told.stderr
    assert box.run("ps", "--limit", "4").stderr == ""


def test_wait_tells_success_failure_and_impatience_apart(box: Box) -> None:
    good, bad = box.submit("--", "true"), box.submit("--", "sh", "-c", "exit 3")
    assert box.run("wait", good).returncode == 0
    failed = box.run("wait", good, bad)
    assert (failed.returncode, f"job {bad}" in failed.stderr) == (1, True)
    slow = box.submit("--", "sleep", "60")
    assert box.run("wait", slow, "--timeout", "0.2s").returncode == 124


def test_an_array_is_one_id_with_elements(box: Box) -> None:
    parent = box.submit("--array", "0-2%1", "--gpus", "0", "--", "sh", "-c", "exit $CORRAL_ARRAY_INDEX")
    assert box.run("wait", parent).returncode == 1
    rows = {row["id"]: row for row in box.json("ps", "--all", "--json") if row["array_id"] == parent}
    assert sorted(rows) == [f"{parent}_{index}" for index in range(3)]
    assert [rows[f"{parent}_{index}"]["exit_code"] for index in range(3)] == [0, 1, 2]
    assert box.run("wait", f"{parent}_0").returncode == 0
    shown = box.ok("show", parent)
    assert f"such as    {parent}_0\n" in shown
    assert "command    sh -c 'exit $CORRAL_ARRAY_INDEX'\n" in shown


def test_each_job_of_a_sweep_runs_with_its_values_again_when_it_is_requeued(box: Box) -> None:
    sweep = ("--param", "lr=0.1,0.01", "--param", "seed=3..4", "--max-running", "2", "--gpus", "0")
    shown = box.ok("submit", "--dry-run", *sweep, "--", "echo", "{lr}", "{x}")
    assert "4 jobs; the first (lr=0.1 seed=3): echo 0.1 '{x}'" in shown
    parent = box.submit(*sweep, "--", "sh", "-c", "echo $lr $seed {lr}-{seed}; exit 3")
    last = f"{parent}_3"
    assert box.run("wait", parent).returncode == 1
    box.ok("requeue", last)
    assert box.ended(last)["params"] == {"lr": "0.01", "seed": "4"}
    assert box.ok("logs", last).count("corral: parameters: lr=0.01 seed=4\n") == 2
    assert box.ok("logs", last).count("0.01 4 0.01-4\n") == 2
    assert "(lr=0.01 seed=4) failed" in box.ok("why", last)
    assert "lr=0.01 seed=4: exit code 3" in box.ok("ps", "--all", "--elements")
    assert "params     lr=0.01 seed=4\n" in box.ok("show", last)


def test_the_first_and_the_last_element_of_an_array_are_named(box: Box) -> None:
    for spec, told in (("2-8:3", "3 jobs: {0}_2 to {0}_8"), ("4", "1 job: {0}_4")):
        done = box.run("submit", "--array", spec, "--gpus", "0", "--", "true")
        assert done.stderr == f"corral: {told.format(done.stdout.strip())}\n"


def test_why_of_an_array_tells_how_it_stands_and_what_the_next_element_waits_for(box: Box) -> None:
    parent = box.submit("--array", "3-6%2", "--gpus", "0", "--", "sh", "-c", "test $CORRAL_ARRAY_INDEX = 3 || sleep 60")
    stands = f"array {parent} has 4 elements: 1 waiting, 2 running, 1 succeeded. Next, {parent}_6: "
    box.until(lambda: (why := box.ok("why", parent)).startswith(stands) and "2 of at most 2 elements run" in why)
    assert f"such as {parent}_3" in box.run("logs", parent).stderr
    box.ok("cancel", parent)
    box.run("wait", parent)
    assert box.json("why", parent, "--json")["phase"] == "CANCELLED"


def test_cancelling_an_array_cancels_its_elements(box: Box) -> None:
    parent = box.submit("--array", "0-3", "--gpus", "2", "--", "sleep", "60")
    told = box.ok("cancel", parent)
    assert told.splitlines() == [f"cancelled {parent}_{index}" for index in range(4)]
    box.run("wait", parent)
    phases = [row["phase"] for row in box.json("ps", "--all", "--json") if row["array_id"] == parent]
    assert phases == ["CANCELLED"] * 4


def test_a_script_says_what_it_needs_and_flags_win(box: Box, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --job-name=from-slurm --partition=gpu\n#SBATCH --gres=gpu:2 -t 90\n#CORRAL --priority 3\n"
        'echo "$1 $CORRAL_GPUS $SLURM_JOB_ID"\n'
    )
    done = box.run("submit", "--json", "--priority", "2", str(script), "arg")
    assert "--partition=gpu (line 2)" in done.stderr
    job_id = done.stdout.split('"')[3]
    row = box.ended(job_id)
    assert (row["name"], row["priority"], row["exit_code"]) == ("from-slurm", 2, 0)
    assert box.ok("logs", job_id) == f"arg 2 {job_id}\n"


def test_an_array_for_slurm_finds_its_numbers_and_is_told_where_its_output_goes(box: Box, tmp_path: Path) -> None:
    script = tmp_path / "sweep.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH --array=3,5 -o out.%A_%3a\n#CORRAL --gpus 0\n"
        "echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_SUBMIT_DIR $SLURM_JOB_NAME\n"
    )
    done = box.run("submit", str(script), cwd=tmp_path, PWD=str(tmp_path))
    parent = done.stdout.strip()
    box.run("wait", parent)
    written = tmp_path / f"out.{parent}_005"
    assert written.read_text() == f"{parent} 5 {tmp_path} sweep.sh\n"
    assert box.ok("logs", f"{parent}_5") == f"corral: standard output and error go to {written}\n"


def test_a_file_for_output_is_emptied_at_first_and_goes_on_when_the_job_is_queued_again(
    box: Box, tmp_path: Path
) -> None:
    (tmp_path / "x.out").write_text("of yesterday\n")
    script = 'echo $CORRAL_ATTEMPT; test -e "$CORRAL_SCRATCH/../../nothing"'
    words = ("--gpus", "0", "--name", "x", "--output", "%x.out", "--error", "%x.%j.err", "--workdir", str(tmp_path))
    job_id = box.submit(*words, "--", "sh", "-c", script)
    assert box.ended(job_id)["phase"] == "FAILED"
    box.ok("requeue", job_id)
    box.until(lambda: box.job(job_id)["attempts"] == 2 and box.job(job_id)["phase"] == "FAILED")
    assert (tmp_path / "x.out").read_text() == "1\n2\n"
    assert (tmp_path / f"x.{job_id}.err").read_text() == ""


def test_a_file_for_output_that_cannot_be_written_fails_the_job_and_says_so(box: Box, tmp_path: Path) -> None:
    words = ["--gpus", "0", "--output", "no/such/%j.out", "--workdir", str(tmp_path), "--", "true"]
    refused = box.run("submit", *words)
    assert (refused.returncode, "'no/such' does not exist" in refused.stderr) == (2, True)
    job_id = box.submit("--force", *words)
    row = box.ended(job_id)
    assert (row["phase"], row["exit_code"]) == ("FAILED", 126)
    why = f"cannot write the output to {tmp_path}/no/such/{job_id}.out: No such file or directory"
    assert row["reason"] == why
    assert why in box.ok("logs", job_id)
    assert box.api(f"/api/v1/jobs/{job_id}")["spec"]["forced_by"] == pwd.getpwuid(os.geteuid()).pw_name
    assert "--output: %q is not a placeholder" in box.run("submit", "--output", "%q", "--", "true").stderr


def test_logs_follow_a_job_to_its_end(box: Box) -> None:
    job_id = box.submit("--", "sh", "-c", "echo one; sleep 0.5; echo two")
    assert box.ok("logs", "-f", job_id) == "one\ntwo\n"
    assert box.ok("logs", job_id) == "one\ntwo\n"


def test_a_lower_number_runs_first(box: Box) -> None:
    holder = box.submit("--gpus", "4", "--", "sleep", "60")
    late, early = (box.submit("--gpus", "4", "--priority", priority, "--", "true") for priority in ("7", "2"))
    box.ok("cancel", holder)
    box.run("wait", late, early)
    assert box.job(early)["started_at"] < box.job(late)["started_at"]


def test_a_held_job_waits_until_it_is_released(box: Box) -> None:
    job_id = box.submit("--hold", "--", "true")
    box.ended(box.submit("--", "true"))
    assert box.job(job_id)["phase"] == "PENDING"
    assert "on hold" in box.ok("why", job_id)
    box.ok("release", job_id)
    assert box.ended(job_id)["phase"] == "SUCCEEDED"


def test_a_job_waits_for_its_begin_time_and_says_so(box: Box) -> None:
    begins_at = time.time() + 6
    job_id = box.submit("--begin", "now+6", "--", "true")
    tomorrow = box.submit("--begin", "tomorrow", "--", "true")
    assert "(BeginTime " in box.ok("ps", "--user", box.job(job_id)["user"])
    told = box.json("why", "--json", tomorrow)
    assert "its begin time is in" in told["reason"]
    assert told["expected_start"] == box.job(tomorrow)["begin_at"]
    row = box.ended(job_id)
    assert (row["phase"], row["started_at"] >= begins_at) == ("SUCCEEDED", True)
    assert next(part["reason"] for part in box.json("why", "--json", job_id)["waited"]) == "BeginTime"
    assert box.job(tomorrow)["phase"] == "PENDING"


def test_a_failed_parent_cancels_those_that_follow_and_they_say_so(box: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    parent = box.submit("--", "sh", "-c", f"{until_there(gate)}; exit 1")
    child = box.submit("--after", parent, "--", "true")
    gate.touch()
    row = box.ended(child)
    assert row["phase"] == "CANCELLED"
    assert parent in row["reason"]


def test_what_has_to_become_of_a_job_before_another_starts_can_be_said(box: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    parent = box.submit("--name", "first", "--", "sh", "-c", f"{until_there(gate)}; exit 1")
    words = ("any:{}", "notok:{}", "{}?any:{}", "start:{}", "{}")
    ended, failed, either, begun, hopeless = (
        box.submit("--after", word.format(parent, parent), "--", "true") for word in words
    )
    assert box.ended(begun)["phase"] == "SUCCEEDED"
    one_at_a_time = box.submit("--name", "first", "--after", "singleton", "--", "true")
    assert "it starts after that job ends" in box.ok("why", one_at_a_time)
    assert f"{parent} succeeds or {parent} ends" in box.ok("why", either)
    gate.touch()
    for job_id in (ended, failed, either, one_at_a_time):
        assert box.ended(job_id)["phase"] == "SUCCEEDED"
    assert box.ended(hopeless)["phase"] == "CANCELLED"
    late = box.submit("--after", f"notok:{ended}", "--", "true")
    assert box.ended(late)["reason"] == f"job {ended}, whose failure it was to follow, succeeded"
    assert "'sometime' is not a condition" in box.run("submit", "--after", f"sometime:{ended}", "--", "true").stderr


def test_a_failed_job_can_be_queued_again(box: Box, tmp_path: Path) -> None:
    job_id = box.submit("--", "test", "-e", str(tmp_path / "data"))
    assert box.ended(job_id)["phase"] == "FAILED"
    (tmp_path / "data").touch()
    box.ok("requeue", job_id)
    row = box.ended(job_id)
    assert (row["phase"], row["attempts"]) == ("SUCCEEDED", 2)


def test_why_has_the_numbers_the_place_and_what_would_start_now(box: Box) -> None:
    holder = box.submit("--gpus", "3", "--", "sleep", "60")
    box.until_phase(holder, "RUNNING")
    first, second = (box.submit("--gpus", "2", "--", "true") for _ in range(2))
    told = box.until(lambda: "needs 2 GPUs" in (why := box.json("why", first, "--json"))["reason"] and why)
    assert (told["position"], box.json("why", second, "--json")["position"]) == (1, 2)
    assert "expected_start" in told
    assert "--gpus 1" in box.ok("why", first)
    box.ok("cancel", holder)
    box.run("wait", first, second)
    assert re.search(r"waited .*: .*\bResources ", box.ok("why", first))


def test_cordon_and_uncordon_say_what_was_kept_and_who_still_uses_the_gpu(box: Box) -> None:
    job_id = box.ok("submit", "--device", "3", "--", "sleep", "600").strip()
    box.until(lambda: states(box)[3] == "allocated")
    assert "GPU 3 is cordoned (its fan is loud)" in box.ok("cordon", "3", "--reason", "its fan is loud")
    assert "it keeps the reason given before: its fan is loud" in box.ok("cordon", "3")
    assert f"GPU 3 is no longer cordoned: it is allocated, and job {job_id} still uses it" in box.ok("uncordon", "3")
    log = (box.home / "server.log").read_text()
    assert re.search(rf"GPU {uuid(3)}: cordoned by \S+: its fan is loud\n", log)
    assert f"GPU {uuid(3)}: uncordoned by " in log
    box.ok("cancel", job_id)


def test_a_cordoned_gpu_gets_no_job_until_it_is_uncordoned(box: Box) -> None:
    try:
        assert "GPU 3 is cordoned" in box.ok("cordon", "3", "--reason", "its fan is loud")
        assert states(box)[3] == "cordoned"
        assert "its fan is loud" in box.ok("status")
        job_id = box.submit("--gpus", "4", "--", "true")
        box.until(lambda: "1 cordoned (its fan is loud)" in box.ok("why", job_id))
        assert box.job(job_id)["phase"] == "PENDING"
    finally:
        box.ok("uncordon", uuid(3))
    assert box.ended(job_id)["phase"] == "SUCCEEDED"


def test_a_reservation_prints_what_a_shell_evaluates_and_holds_its_gpus(box: Box) -> None:
    done = box.run("reserve", "--gpus", "2", "--for", "1h", "--detach")
    shell = f"{done.stdout}\necho $CUDA_VISIBLE_DEVICES $CORRAL_JOB_ID"
    visible, job_id = subprocess.run(["sh", "-c", shell], capture_output=True, text=True).stdout.split()
    reserved = [device["uuid"] for device in box.json("status", "--json") if device["state"] == "reserved"]
    assert visible.split(",") == reserved
    assert len(reserved) == 2
    assert f"to end it: corral release {job_id}; " in done.stderr
    assert box.ok("release", job_id) == f"released {job_id}\n"
    assert box.job(job_id)["phase"] == "SUCCEEDED"
    box.until(lambda: states(box).count("free") == 4)


def test_run_in_a_shell_with_a_reservation_runs_at_once_on_its_gpus_and_as_no_job(box: Box) -> None:
    reserved = box.ok("reserve", "--gpus", "2", "--for", "1h", "--detach")
    variables = dict(line.removeprefix("export ").split("=") for line in reserved.splitlines())
    box.submit("--gpus", "2", "--", "sleep", "60")  # so that nothing else is free
    done = box.run("run", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 7", cwd=None, **variables)
    assert (done.returncode, done.stdout) == (7, variables["CUDA_VISIBLE_DEVICES"] + "\n"), done.stderr
    assert f"runs in reservation {variables['CORRAL_JOB_ID']}" in done.stderr
    one = box.run("run", "--gpus", "1", "--", "printenv", "CUDA_VISIBLE_DEVICES", cwd=None, **variables)
    assert one.stdout.strip() in variables["CUDA_VISIBLE_DEVICES"].split(",")
    assert box.run("run", "--", "no-such-program", cwd=None, **variables).returncode == 127
    assert len(box.json("ps", "--json")) == 2
    queued = box.submit("--gpus", "0", "--", "true")
    assert box.ended(queued)["phase"] == "SUCCEEDED"
    job = box.run(
        "run", "--no-reservation", "--gpus", "0", "--", "printenv", "CORRAL_RESERVATION", cwd=None, **variables
    )
    assert (job.returncode, job.stdout) == (1, "")
    box.ok("release", variables["CORRAL_JOB_ID"])
    over = box.run("run", "--", "true", cwd=None, **variables)
    assert over.returncode == 125
    assert "this shell's reservation is over" in over.stderr


def test_a_reservation_ends_with_the_session_it_was_made_in(box: Box) -> None:
    shell = f"{CORRAL} reserve --gpus 1 --for 1h; echo held; read line"
    with subprocess.Popen(
        ["sh", "-c", shell], start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=box.env,
    ) as session:  # fmt: skip
        assert session.stdout is not None
        box.until(lambda: session.stdout is not None and session.stdout.readline() == "held\n")
        assert states(box).count("reserved") == 1
    box.until(lambda: states(box).count("free") == 4)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_reservation_that_nobody_waits_for_any_more_leaves_the_queue(box: Box, number: signal.Signals) -> None:
    box.submit("--gpus", "4", "--", "sleep", "60")
    with box.start("reserve", "--gpus", "1", "--for", "1h", "--name", f"unwanted-{number}") as command:
        line_of(command.stderr, "needs 1 GPU")
        command.send_signal(number)
        out, _ = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, out) == (130, "")
    (row,) = (row for row in box.json("ps", "--all", "--json") if row["name"] == f"unwanted-{number}")
    assert row["phase"] == "CANCELLED"


def test_a_reservation_ends_when_its_time_is_up(box: Box) -> None:
    with Client(box.home) as client:
        reservation = client.reserve(gpus=1, time="0.2s").id
    assert box.ended(reservation)["phase"] == "SUCCEEDED"
    box.until(lambda: states(box).count("free") == 4)


def test_a_process_that_runs_already_is_adopted_with_its_gpus(new_box: Callable[[str], Box]) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        use = f'processes = [{{ pid = {stranger.pid}, user = "somebody", memory = "1G" }}]'
        box = new_box(
            described(1, extra=use) + described(1).replace("GPU-00000000", "GPU-00000001").split("\n\n", 2)[2]
        )
        box.up()
        box.until(lambda: states(box) == ["in_use", "free"])
        job_id = box.json("adopt", str(stranger.pid), "--name", "llama", "--json")["id"]
        box.until_phase(job_id, "RUNNING")
        assert (box.job(job_id)["name"], box.job(job_id)["devices"]) == ("llama", [uuid(0)])
        assert states(box) == ["allocated", "free"]
        again = box.run("adopt", str(stranger.pid))
        assert (again.returncode, f"process {stranger.pid} is job {job_id} already" in again.stderr) == (1, True)
        stranger.terminate()
    box.describe(box.mock.read_text().replace(use, ""))
    box.until(lambda: box.job(job_id)["ended_at"] is not None)


def test_what_would_take_the_server_or_its_user_along_is_not_adopted(box: Box) -> None:
    server = (box.home / "corral.pid").read_text().split()[0]
    for pid, what in (
        (server, "this Corral server"),
        ("1", "your shell or a parent of it"),
        (str(os.getpid()), "your shell or a parent of it"),
    ):
        done = box.run("adopt", pid)
        assert (done.returncode, what in done.stderr) == (2, True), done.stderr


def test_a_server_without_a_gpu_says_so_when_it_comes_up(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(0))
    done = box.run("up", "--detach", "--mock", str(box.mock))
    assert done.returncode == 0
    for said in ("it has found no GPU", "hosts add HOST --install", "up --detach --mock"):
        assert said in done.stderr
    assert box.run("run", "--gpus", "0", "--", "true").returncode == 0


def test_a_second_server_of_one_home_is_told_of_the_first(box: Box) -> None:
    done = box.run("up", "--detach")
    assert done.returncode == 1
    assert "corral down" in done.stderr
    assert (box.home / "corral.pid").read_text().split()[0] in done.stderr


def test_what_a_dead_server_left_is_replaced_silently_and_its_jobs_live(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    box.up()
    gate = box.home / "gate"
    job_id = box.submit("--", "sh", "-c", f"{until_there(gate)}; exit 4")
    box.until_phase(job_id, "RUNNING")
    box.kill()
    box.until(lambda: box.run("ps").returncode == 1)
    done = box.run("up", "--detach", "--mock", str(box.mock))
    assert (done.returncode, done.stderr) == (0, "")
    gate.touch()
    row = box.ended(job_id)
    assert (row["phase"], row["exit_code"], row["attempts"]) == ("FAILED", 4, 1)


def test_a_foreground_server_stops_on_sigterm_and_leaves_jobs_running(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    with box.start("up", "--mock", str(box.mock)) as server:
        box.until(lambda: box.run("ps").returncode == 0)
        assert int((box.home / "corral.pid").read_text().split()[0]) == server.pid
        gate = box.home / "gate"
        job_id = box.submit("--", "sh", "-c", until_there(gate))
        box.until_phase(job_id, "RUNNING")
        server.terminate()
        server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 0
    box.up()
    assert box.job(job_id)["phase"] == "RUNNING"
    gate.touch()
    assert box.ended(job_id)["phase"] == "SUCCEEDED"


def test_over_tcp_the_token_opens_and_its_lack_does_not(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    with box.start("up", "--mock", str(box.mock), "--listen", "127.0.0.1:0") as server:
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+", line_of(server.stderr, "http://"))
        assert box.ok("ps", CORRAL_URL=url).startswith("ID")
        refused = box.run("ps", CORRAL_URL=url, CORRAL_TOKEN="wrong")
        assert (refused.returncode, "token" in refused.stderr) == (1, True)
        server.terminate()
        server.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize(("words", "gpus"), [(["--mock", "--detach"], 8), (["--detach", "--mock", "cluster"], 32)])
def test_mock_needs_no_file(words: list[str], gpus: int, new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    box.ok("up", *words)
    assert len(box.json("devices", "--json")) == gpus


def test_doctor_is_content_with_a_running_server(box: Box) -> None:
    told = box.ok("doctor")
    assert re.search(r"ok +server +pid \d+ of \w+ answers", told)
    assert "4 GPUs, mock devices (--mock)" in told
    assert re.search(r"ok +ledger", told)


def test_doctor_tells_of_a_server_of_another_build_than_the_command(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    running = box.ok("--version").split()[1]
    monkeypatch.setenv("CORRAL_HOME", str(box.home))
    monkeypatch.setattr(corral, "__version__", "0.1.0+g0000000")
    found = check_server(Home(box.home))
    assert f"runs {running}, this command is 0.1.0+g0000000" in found.found
    assert (found.state, found.advice.startswith("restart it (jobs run on)")) == ("warning", True)


def test_the_demonstration_shows_waiting_priority_and_failure_and_leaves_nothing(open_directory: Path) -> None:
    # Of a test's own, yet short enough for the path of a socket.
    env = {**os.environ, "TMPDIR": str(open_directory)}
    done = subprocess.run([CORRAL, "demo"], capture_output=True, text=True, env=env, timeout=COMMAND_S)
    assert done.returncode == 0, done.stderr
    assert "evaluate waits: it needs 8 GPUs" in done.stdout
    assert "urgent (priority 1) started before evaluate (priority 5)" in done.stdout
    assert "broken) failed with exit code 3" in done.stdout
    assert re.search(r"what to type next\n.*corral up --detach", done.stdout)
    assert list(open_directory.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["why", "999"], ["logs", "999"], ["cancel", "999"], ["wait", "999"], ["cordon", "9"]]
)
def test_what_does_not_exist_is_said_in_one_line(box: Box, words: list[str]) -> None:
    done = box.run(*words)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "there is no" in done.stderr


def test_a_server_without_queues_has_the_default_queue_without_limits(box: Box) -> None:
    assert box.ok("queues").splitlines()[1].split() == ["default", "-", "0", "0", "no", "limit", "priority"]
    assert [(row["name"], row["left_milli"]) for row in box.json("queues", "--json")] == [("default", None)]
