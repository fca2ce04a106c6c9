"""`corral run` as a user meets it: real processes, their output and their exit codes."""

import hashlib
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.e2e.box import COMMAND_S, CORRAL, PATIENCE_S, Box, described, line_of, until_there, uuid


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--", "true"], 0),
        (["--", "sh", "-c", "exit 7"], 7),
        (["--", "sh", "-c", "kill -9 $$"], 137),
        (["--", "no-such-command"], 127),
        (["--", "/etc/passwd"], 126),
        (["--time", "0.2s", "--", "sleep", "60"], 124),
        (["--gpus", "10000", "--", "true"], 2),
        (["--workdir", "/no/such/place", "--", "true"], 2),
    ],
)
def test_run_exits_as_a_shell_would(box: Box, words: list[str], code: int) -> None:
    done = box.run("run", *words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_run_tells_its_jobs_id_before_the_output_and_not_among_it(box: Box) -> None:
    done = box.run("run", "--", "sh", "-c", "echo $CORRAL_JOB_ID")
    assert done.stderr.splitlines()[0] == f"corral: job {done.stdout.strip()}"


def test_more_than_the_machine_has_is_refused_with_what_it_has(box: Box) -> None:
    refused = box.run("run", "--gpus", "10000", "true").stderr
    assert "this machine has 4 GPUs; the most you can ask for is 4 GPUs" in refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--label", "cuda-major-version=11"], "cuda-major-version is one of 12"),
        (["--min-driver", "550.60"], "no node has driver 550.60 or newer; the newest is 550.54.15"),
        (["--min-cuda", "12.5"], "no node has CUDA 12.5 or newer; the newest is 12.4"),
        (["--speed", "a100=0"], "it runs on no model that is here"),
        (["--gang", "2", "--spread"], "2 nodes are asked for, a member of the gang on each, and one node is here"),
        (["--gang", "2", "--gpus", "0.5"], "this job asks for parts of GPUs"),
    ],
)
def test_a_place_that_is_nowhere_is_refused_with_what_there_is(box: Box, words: list[str], said: str) -> None:
    assert box.ok("run", "--", "true") == ""
    done = box.run("run", *words, "--", "true")
    assert (done.returncode, said in " ".join(done.stderr.split())) == (2, True), done.stderr


def test_a_job_runs_where_its_labels_versions_and_speeds_let_it(box: Box) -> None:
    words = ["--label", "cuda-major-version=12", "--label", "driver-version=550.54.15", "--min-driver", "550.54"]
    assert box.ok("run", *words, "--min-cuda", "12.1", "--speed", "a100=1,k80=0", "--", "echo", "here") == "here\n"


def test_flags_end_where_the_command_begins(box: Box) -> None:
    assert box.ok("run", "echo", "--gpus", "-n", "--", "x") == "--gpus -n -- x\n"


def test_output_is_there_while_the_job_still_runs(box: Box) -> None:
    with box.start("run", "--name", "talks", "--", "sh", "-c", "echo early; sleep 600") as command:
        assert line_of(command.stdout) == "early\n"
        (row,) = (row for row in box.json("ps", "--json") if row["name"] == "talks")
        box.until_phase(row["id"], "RUNNING")
        command.send_signal(signal.SIGTERM)


def test_binary_output_arrives_as_it_was_written(box: Box) -> None:
    script = "head -c 300000 /dev/zero; printf '\\377\\000\\n'; echo err >&2"
    words = [CORRAL, "run", "--", "sh", "-c", script]
    done = subprocess.run(words, capture_output=True, env=box.env, timeout=COMMAND_S)
    assert done.stdout == bytes(300000) + b"\xff\x00\nerr\n"


@pytest.mark.parametrize("closed", [False, True])
def test_a_job_without_input_finds_its_end_at_once(box: Box, closed: bool) -> None:
    how = "<&-" if closed else "< /dev/null"
    words = ["sh", "-c", f"{CORRAL} run -- sh -c 'cat; echo done' {how}"]
    done = subprocess.run(words, capture_output=True, text=True, env=box.env, timeout=COMMAND_S)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_input_reaches_the_job_whole_from_a_file_and_from_a_pipe(box: Box, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(3_000_000)
    (tmp_path / "data").write_bytes(data)
    for source in (f"< {tmp_path / 'data'}", None):
        words = ["sh", "-c", f"{CORRAL} run -- sha256sum {source or ''}"]
        given = None if source else data
        done = subprocess.run(words, input=given, capture_output=True, env=box.env, timeout=COMMAND_S)
        assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest(), done.stderr


def test_a_job_that_reads_no_input_or_only_some_ends_as_it_likes(box: Box) -> None:
    for words in (["true"], ["head", "-c", "100"]):
        script = f"yes | {CORRAL} run -- {shlex.join(words)} | wc -c"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=box.env, timeout=COMMAND_S)
        assert done.stdout == ("0\n" if words == ["true"] else "100\n"), done.stderr


def test_a_job_that_answers_its_input_line_by_line_can_be_talked_to(box: Box) -> None:
    script = "while read line; do echo got $line; done"
    with box.start("run", "--", "sh", "-c", script, stdin=subprocess.PIPE) as command:
        assert command.stdin is not None
        for word in ("one", "two"):
            command.stdin.write(f"{word}\n")
            command.stdin.flush()
            assert line_of(command.stdout) == f"got {word}\n"
        command.stdin.close()
        assert command.wait(PATIENCE_S) == 0


def test_sigterm_to_run_cancels_its_job(box: Box) -> None:
    with box.start("run", "--name", "sent-term", "--", "sh", "-c", "echo up; exec sleep 60") as command:
        assert line_of(command.stdout) == "up\n"
        command.send_signal(signal.SIGTERM)
        _, told = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 128 + signal.SIGTERM
    assert "cancelling job" in told
    (row,) = (row for row in box.json("ps", "--all", "--json") if row["name"] == "sent-term")
    assert (row["phase"], row["signal"]) == ("CANCELLED", signal.SIGTERM)


def test_ctrl_c_interrupts_the_job_which_is_not_tried_again(box: Box) -> None:
    words = ["run", "--retries", "3", "--name", "sent-int"]
    with box.start(*words, "--", "sh", "-c", "echo up; exec sleep 60") as command:
        assert line_of(command.stdout) == "up\n"
        command.send_signal(signal.SIGINT)
        _, told = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 130
    assert re.fullmatch(r"corral: job (\d+)\ncorral: sent SIGINT to job \1; press Ctrl-C again to cancel it\n", told)
    (row,) = (row for row in box.json("ps", "--all", "--json") if row["name"] == "sent-int")
    assert (row["phase"], row["signal"], row["attempts"]) == ("FAILED", signal.SIGINT, 1)


def test_a_job_that_saves_its_work_on_ctrl_c_ends_as_it_likes(box: Box) -> None:
    script = "trap 'echo saved; exit 0' INT; echo up; while :; do sleep 0.05; done"
    with box.start("run", "--", "sh", "-c", script) as command:
        assert line_of(command.stdout) == "up\n"
        command.send_signal(signal.SIGINT)
        out, _ = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, out) == (0, "saved\n")


def test_a_signal_while_it_waits_takes_it_from_the_queue(box: Box) -> None:
    box.submit("--gpus", "4", "--", "sleep", "60")
    with box.start("run", "--gpus", "4", "--name", "impatient", "--", "true") as command:
        box.until(lambda: any(row["name"] == "impatient" for row in box.json("ps", "--json")))
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 128 + signal.SIGINT


def test_a_second_ctrl_c_cancels_and_a_third_stops_waiting_for_a_job_that_does_not_go(box: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"trap '' INT TERM; echo up; {until_there(gate)}"
    with box.start("run", "--name", "stubborn", "--", "sh", "-c", script) as command:
        assert line_of(command.stdout) == "up\n"
        command.send_signal(signal.SIGINT)
        line_of(command.stderr, "press Ctrl-C again to cancel it")
        command.send_signal(signal.SIGINT)
        line_of(command.stderr, "cancelling")
        # It says so before the server has been told: a third one then would break that off.
        box.until(lambda: [row["phase"] for row in box.json("ps", "--json")] == ["STOPPING"])
        command.send_signal(signal.SIGINT)
        _, told = command.communicate(timeout=PATIENCE_S)
    gate.touch()
    assert command.returncode == 130
    assert "corral wait" in told


def test_whoever_leaves_before_the_server_has_answered_is_told_that_the_job_may_be_there(box: Box) -> None:
    server = int((box.home / "corral.pid").read_text().split()[0])
    os.kill(server, signal.SIGSTOP)
    try:
        with box.start("run", "--", "true") as command:
            status = Path(f"/proc/{command.pid}/status")
            box.until(lambda: int(status.read_text().split("SigCgt:")[1].split()[0], 16) >> (signal.SIGTERM - 1) & 1)
            while command.poll() is None:
                command.send_signal(signal.SIGINT)
                time.sleep(0.1)
            _, told = command.communicate()
    finally:
        os.kill(server, signal.SIGCONT)
    assert command.returncode == 130
    assert "`corral ps` shows whether the job was queued" in told


def test_while_it_waits_run_says_why(box: Box) -> None:
    holder = box.submit("--gpus", "4", "--", "sleep", "60")
    with box.start("run", "--gpus", "2", "--", "echo", "ran") as command:
        line_of(command.stderr, "needs 2 GPUs")
        box.ok("cancel", holder)
        out, _ = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, out) == (0, "ran\n")


def test_a_reader_that_goes_away_ends_the_job(box: Box) -> None:
    script = f"{CORRAL} run --name yes -- yes | head -n 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=box.env, timeout=COMMAND_S)
    assert done.stdout == "y\n"
    (row,) = (row for row in box.json("ps", "--all", "--json") if row["name"] == "yes")
    assert box.ended(row["id"])["phase"] == "CANCELLED"


def test_a_job_has_its_callers_environment_directory_and_umask_and_its_own_gpus(box: Box, tmp_path: Path) -> None:
    script = "pwd; umask; echo $MINE $OTHER; echo $CUDA_DEVICE_ORDER; echo $CUDA_VISIBLE_DEVICES"
    before = os.umask(0o027)
    try:
        done = box.run(
            "run", "--gpus", "1", "--device", "2", "--env", "MINE=1", "sh", "-c", script, cwd=tmp_path, OTHER="2"
        )
    finally:
        os.umask(before)
    assert done.stdout.splitlines() == [str(tmp_path), "0027", "1 2", "PCI_BUS_ID", uuid(2)]


def test_every_variable_that_a_job_finds_is_in_the_readme(box: Box) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    found = re.findall(r"^(CORRAL_\w+)=", box.ok("run", "--", "env"), re.MULTILINE)
    assert len(found) >= 8
    assert [name for name in found if f"`{name}`" not in readme] == []


def test_a_cpu_job_sees_no_gpu(box: Box) -> None:
    assert box.ok("run", "--gpus", "0", "--", "sh", "-c", 'echo "[$CUDA_VISIBLE_DEVICES]"') == "[]\n"


def test_dry_run_tells_where_it_would_run_or_why_not(box: Box) -> None:
    assert re.match(r"would start now on 2 GPUs: \d, \d ", box.ok("run", "--gpus", "2", "--dry-run", "true"))
    box.submit("--gpus", "3", "--", "sleep", "60")
    box.until(lambda: sum(device["state"] == "allocated" for device in box.json("status", "--json")) == 3)
    told = box.ok("run", "--gpus", "2", "--dry-run", "true")
    assert told.startswith("would wait: it needs 2 GPUs; ")
    assert "--gpus 1" in told


def test_a_dry_run_of_what_can_never_start_ends_as_the_submission_would(box: Box) -> None:
    for words in (("run", "--gpus", "9", "--dry-run", "true"), ("submit", "--dry-run", "--gpus", "9", "--", "true")):
        told = box.run(*words)
        assert (told.returncode, box.run(*(word for word in words if word != "--dry-run")).returncode) == (2, 2)
        assert told.stdout.splitlines() == [
            "can never start here: this machine has 4 GPUs; the most you can ask for is 4 GPUs",
            "starts now with: --gpus 4",
        ]


def test_no_input_is_lost_or_doubled_when_the_server_is_killed(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    box.up()
    data = random.Random(2).randbytes(2_000_000)
    slow = "import hashlib, os, time\ndigest = hashlib.sha256()\nprint('up', flush=True)\n"
    slow += "while block := os.read(0, 20_000): digest.update(block); time.sleep(0.005)\nprint(digest.hexdigest())"
    words = [CORRAL, "run", "--", sys.executable, "-c", slow]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=box.env) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        feeding = threading.Thread(target=lambda: (command.stdin.write(data), command.stdin.close()))  # type: ignore[union-attr]
        feeding.start()
        assert command.stdout.readline() == b"up\n"
        box.kill()
        box.up()
        assert command.stdout.read().decode().strip() == hashlib.sha256(data).hexdigest()
        feeding.join()
        assert command.wait(PATIENCE_S) == 0


def test_a_job_that_cannot_be_cancelled_now_is_when_the_server_is_back(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    box.up()
    with box.start("run", "--", "sleep", "600") as run:
        box.until(lambda: any(row["phase"] == "RUNNING" for row in box.json("ps", "--json")))
        box.kill()
        line_of(run.stderr, "lost the server")
        run.terminate()
        # What it says next differs: a server that is being killed may still accept a connection.
        line_of(run.stderr, "cancelling job")
        box.up()
        assert run.stderr is not None
        told = run.stderr.read()
        assert run.wait(PATIENCE_S) == 128 + signal.SIGTERM, told


def test_run_outlasts_a_restart_of_the_server(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    box.up()
    gate = box.home / "gate"
    with box.start("run", "--", "sh", "-c", f"echo 1; {until_there(gate)}; echo 2; exit 5") as command:
        assert line_of(command.stdout) == "1\n"
        box.down()
        line_of(command.stderr, "lost the server")
        box.up()
        gate.touch()
        out, _ = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, out) == (5, "2\n")
