"""`corral exec` as its user meets it: a command or a shell inside a running job, on whichever node."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.box import CORRAL, PATIENCE_S, SETTINGS, Box, Command, described
from tests.e2e.terminal import Screen, corral
from tests.engines.pool import cluster


@pytest.fixture
def job(box: Box) -> str:
    """A job that runs on one GPU for longer than any test."""
    job = box.submit("--gpus", "1", "--env", "MINE=as submitted", "--", "sleep", "1000")
    box.until_phase(job, "RUNNING")
    return job


def processes_of(box: Box, job: str) -> set[int]:
    """Those that have the job's id in their environment."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        own = {b"CORRAL_JOB_ID=" + job.encode(), b"CORRAL_HOME=" + os.fsencode(box.home)} <= set(variables)
        if own and state not in "ZX":
            found.add(int(entry.name))
    return found


def until_here(command: Command) -> None:
    assert command.stdout is not None
    assert command.stdout.readline() == "here\n"


def test_a_command_sees_the_gpus_and_the_variables_of_the_job_and_its_exit_code_is_ours(box: Box, job: str) -> None:
    done = box.run("exec", job, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $MINE; echo oops >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, f"{box.job(job)['devices'][0]} as submitted\n", "oops\n")
    assert box.run("exec", job, "nosuch").returncode == 127
    assert box.run("exec", job, "--", "/etc/passwd").returncode == 126
    misplaced = box.run("exec", job, "--rank", "0", "true")
    assert (misplaced.returncode, "write options before the job" in misplaced.stderr) == (2, True)
    assert box.run("exec", job, "--", "sh", "-c", "kill -TERM $$").returncode == 143
    assert box.ok("logs", job) == ""
    assert box.job(job)["phase"] == "RUNNING"


def test_who_ran_which_command_is_kept_and_told(box: Box, job: str) -> None:
    box.ok("exec", job, "--", "echo", "a b")
    box.run("exec", job, "--", "nosuch")
    told = box.json("show", job, "--json")["commands"]
    assert [one["command"] for one in told] == ["echo 'a b'", "nosuch"]
    assert "echo 'a b'" in box.ok("show", job)
    box.down()
    box.up()
    assert box.json("show", job, "--json")["commands"] == told


def test_input_and_output_of_any_size_pass_as_they_are(box: Box, job: str) -> None:
    data = os.urandom(3_000_000)
    command = subprocess.run(
        [CORRAL, "exec", job, "--", "cat"], input=data, env=box.env, capture_output=True, timeout=PATIENCE_S
    )
    assert (command.returncode, command.stdout == data) == (0, True)


def test_a_reader_that_stops_reading_ends_the_command(box: Box, job: str) -> None:
    before = processes_of(box, job)
    done = subprocess.run(
        ["bash", "-c", f"{CORRAL} exec {job} -- yes | head -1; echo ${{PIPESTATUS[0]}}"],
        env=box.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout.split() == ["y", "141"]
    box.until(lambda: processes_of(box, job) == before)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_command_ends_with_its_client_and_the_job_goes_on(box: Box, job: str, number: int) -> None:
    before = processes_of(box, job)
    with box.start("exec", job, "--", "sh", "-c", "setsid sleep 1000 & echo here; sleep 1000") as command:
        until_here(command)
        command.send_signal(number)
        assert command.wait(PATIENCE_S) == (-9 if number == signal.SIGKILL else 128 + number)
    box.until(lambda: processes_of(box, job) == before)
    assert box.job(job)["phase"] == "RUNNING"


def test_a_command_ends_with_its_job(box: Box, job: str) -> None:
    with box.start("exec", job, "--", "sh", "-c", "setsid sleep 1000 & echo here; sleep 1000") as command:
        until_here(command)
        box.ok("cancel", job)
        assert command.wait(PATIENCE_S) != 0
    assert box.ended(job)["phase"] == "CANCELLED"
    assert not processes_of(box, job)


def test_a_server_that_is_killed_takes_its_commands_with_it_and_no_job(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    box.up()
    job = box.submit("--", "sleep", "1000")
    box.until_phase(job, "RUNNING")
    before = processes_of(box, job)
    with box.start("exec", job, "--", "sh", "-c", "echo here; sleep 1000") as command:
        until_here(command)
        box.kill()
        assert command.wait(PATIENCE_S) == 125
        box.until(lambda: processes_of(box, job) == before)
    box.up()
    assert box.run("exec", job, "--", "echo", "again").stdout == "again\n"


def test_what_does_not_run_takes_no_command_and_why_is_said(box: Box) -> None:
    ended = box.submit("--", "true")
    box.ended(ended)
    waiting = box.submit("--hold", "--", "true")
    for job, words in ((ended, "has ended"), (waiting, "has not started"), ("987654", "there is no job")):
        done = box.run("exec", job, "--", "true")
        assert (done.returncode, words in done.stderr) == (125, True), done.stderr


def test_so_many_commands_run_in_one_job_and_no_more(box: Box, job: str) -> None:
    with ExitStack() as stack:
        for _ in range(8):
            command = stack.enter_context(box.start("exec", job, "--", "sh", "-c", "echo here; sleep 1000"))
            stack.callback(command.kill)
            until_here(command)
        done = box.run("exec", job, "--", "true")
        assert (done.returncode, "8 commands run inside" in done.stderr) == (125, True), done.stderr
    box.until(lambda: box.run("exec", job, "--", "true").returncode == 0)


def test_a_shell_has_our_terminal_and_every_key(box: Box, job: str) -> None:
    with corral(box, "exec", job, TERM="vt100") as screen:
        screen.after(b"$ " if os.geteuid() else b"# ")
        screen.resize(31, 97)
        screen.press(b"echo $TERM $MINE\r")
        screen.after(b"vt100 as submitted\r\n")
        screen.press(b"sh -c \"trap 'stty size' WINCH; echo u''p; while :; do sleep 0.05; done\"\r")
        screen.after(b"up\r\n")
        screen.resize(12, 34)
        screen.after(b"12 34\r\n")
        screen.press(b"\x03")
        # What is typed before the terminal has taken the signal is thrown away with it.
        screen.after(b"$ " if os.geteuid() else b"# ")
        screen.press(b"exit 5\r")
        assert screen.to_the_end() == 5


@pytest.mark.parametrize(("how", "code"), [(b"\x1d\x1d\x1d", 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)])
def test_a_shell_that_is_left_ends_and_the_terminal_is_as_it_was(
    box: Box, job: str, how: bytes | int, code: int
) -> None:
    before = processes_of(box, job)
    with corral(box, "exec", job) as screen:
        modes = screen.modes()
        screen.after(b"$ " if os.geteuid() else b"# ")
        leave(screen, how)
        assert screen.to_the_end() == code
        if how != signal.SIGKILL:
            assert screen.modes() == modes
    box.until(lambda: processes_of(box, job) == before)


def leave(screen: Screen, how: bytes | int) -> None:
    if isinstance(how, bytes):
        screen.press(how)
    else:
        screen.process.send_signal(how)


@pytest.fixture(scope="module")
def _gang_box() -> Iterator[Box]:
    """A server with the nodes a and b."""
    box = Box(cluster(a="", b=""), SETTINGS)
    box.up()
    box.until(lambda: all(node["state"] == "ready" for node in box.json("nodes", "--json")))
    yield box
    box.discard()


@pytest.fixture
def gang_box(_gang_box: Box) -> Iterator[Box]:
    yield _gang_box
    _gang_box.clear()


def test_a_command_runs_in_the_member_of_a_gang_that_is_named(gang_box: Box) -> None:
    box = gang_box
    job = box.submit("--gang", "2", "--gpus", "2", "--", "sleep", "1000")
    box.until_phase(job, "RUNNING")
    for rank, node in enumerate("ab"):
        done = box.run("exec", "--rank", str(rank), job, "--", "sh", "-c", "echo $RANK $CORRAL_NODE")
        assert done.stdout == f"{rank} {node}\n", done
    done = box.run("exec", "--rank", "2", job, "--", "true")
    assert (done.returncode, "ranks 0 to 1, not 2" in done.stderr) == (2, True), done.stderr
    assert [one["rank"] for one in box.json("show", job, "--json")["commands"]] == [0, 1]


def test_a_command_on_another_node_ends_when_the_server_is_killed(gang_box: Box) -> None:
    box = gang_box
    job = box.submit("--node", "b", "--gpus", "1", "--", "sleep", "1000")
    box.until_phase(job, "RUNNING")
    before = processes_of(box, job)
    with box.start("exec", job, "--", "sh", "-c", "echo here; sleep 1000") as command:
        until_here(command)
        box.kill()
        assert command.wait(PATIENCE_S) == 125
    box.up()
    box.until(lambda: processes_of(box, job) <= before)
    box.until(lambda: box.job(job)["phase"] == "RUNNING")


def test_an_event_tells_of_a_command(box: Box, job: str) -> None:
    with box.start("events", "--topics", "jobs", "--after", "0", "--json") as events:
        assert events.stdout is not None
        box.ok("exec", job, "--", "echo", "told")
        for line in events.stdout:
            event = json.loads(line)
            if event.get("what") == "executed" and event["rows"][0]["id"] == job:
                break
        events.kill()
    assert event["rows"][0]["exec_command"] == "echo told"
