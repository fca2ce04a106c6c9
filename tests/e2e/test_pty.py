"""`corral run --pty` as its user meets it: a shell at a terminal of its own, on whichever node."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.box import Box, described
from tests.e2e.terminal import Screen, corral

SHELL = ("run", "--pty", "--", "bash", "--norc", "-i")


@pytest.fixture
def shell(box: Box) -> Iterator[Screen]:
    """A shell that has the terminal, and has shown its prompt."""
    with corral(box, *SHELL) as screen:
        screen.after(b"ends it\r\n")
        screen.after(b"bash-")
        yield screen


def test_a_shell_has_a_terminal_of_the_same_kind_and_size_which_follows_ours(box: Box) -> None:
    with corral(box, *SHELL, TERM="vt100", COLUMNS="7") as screen:
        screen.after(b"bash-")
        screen.resize(31, 97)
        screen.press(b"echo $TERM ${COLUMNS-none}; tty\r")
        screen.after(b"vt100 ")
        screen.until(b"/dev/pts/")
        screen.press(b"stty size\r")
        screen.after(b"31 97\r\n")
        screen.press(b"sh -c \"trap 'stty size' WINCH; echo u''p; while :; do sleep 0.05; done\"\r")
        screen.after(b"up\r\n")
        screen.resize(12, 34)
        screen.after(b"12 34\r\n")
        screen.press(b"\x03")
        screen.after(b"bash-")
        screen.press(b"exit 5\r")
        assert screen.to_the_end() == 5


def test_keys_act_on_what_runs_at_the_terminal_as_they_would_here(shell: Screen) -> None:
    shell.press(b"sh -c 'echo up; exec sleep 600'\r")
    shell.after(b"\rup\r\n")
    shell.press(b"\x1a")
    shell.after(b"Stopped")
    shell.after(b"bash-")
    shell.press(b"fg\r")
    shell.after(b"exec sleep 600'\r\n")
    shell.press(b"\x03")
    shell.after(b"bash-")
    shell.press(b"echo code=$?\r")
    shell.after(b"code=130\r\n")
    shell.press(b"sh -c 'echo up; exec cat'\r")
    shell.after(b"\rup\r\n")
    shell.press(b"line\r")
    shell.after(b"line\r\nline\r\n")
    shell.press(b"\x04exit\r")
    assert shell.to_the_end() == 0


def test_the_terminal_is_left_as_it_was_however_the_job_ends(box: Box) -> None:
    ends = ((b"\x04", 0), (b"\x03", 130), (b"\x1d\x1d\x1d", 143), (signal.SIGTERM, 143), (signal.SIGQUIT, 131))
    for how, code in ends:
        with corral(box, "run", "--pty", "--", "sh", "-c", "echo up; exec cat") as screen:
            before = screen.modes()
            screen.after(b"up\r")
            while screen.modes() == before:
                time.sleep(0.01)
            if isinstance(how, bytes):
                screen.press(how)
            else:
                screen.process.send_signal(how)
            assert screen.to_the_end() == code, (how, screen.shown)
            assert screen.modes() == before


def test_a_shell_that_is_left_ends_before_it_has_to_be_killed(shell: Screen) -> None:
    shell.press(b"\x1d")
    shell.press(b"\x1d\x1d")
    assert shell.to_the_end() == 128 + signal.SIGHUP


def test_a_session_whose_window_is_closed_ends(box: Box) -> None:
    with corral(box, "run", "--name", "closed", *SHELL[1:]) as screen:
        screen.after(b"bash-")
        screen.close()
        assert screen.process.wait(60) == 128 + signal.SIGHUP
    (row,) = (row for row in box.json("ps", "--all", "--json") if row["name"] == "closed")
    assert box.ended(row["id"])["phase"] == "CANCELLED"


def test_a_session_ends_too_where_a_shell_passes_on_that_the_window_was_closed(box: Box) -> None:
    for pause_s in (0.0, 0.001, 0.01):
        with corral(box, "run", "--name", "hung-up", *SHELL[1:]) as screen:
            screen.after(b"bash-")
            screen.process.send_signal(signal.SIGHUP)
            time.sleep(pause_s)
            screen.process.send_signal(signal.SIGHUP)
            screen.to_the_end()
            assert b"bug" not in screen.shown
    rows = box.json("ps", "--all", "--name", "hung-up", "--json")
    assert [box.ended(row["id"])["phase"] for row in rows] == ["CANCELLED"] * 3


def test_a_session_goes_on_when_the_server_is_killed(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    box.up()
    with corral(box, *SHELL) as screen:
        before = screen.modes()
        screen.after(b"bash-")
        screen.press(b"kept=alive\r")
        box.kill()
        screen.after(b"lost the server")
        screen.press(b"echo still $kept\r")
        box.up()
        screen.after(b"still alive\r\n")
        screen.press(b"exit\r")
        assert (screen.to_the_end(), screen.modes()) == (0, before)


def test_while_it_waits_ctrl_c_cancels_it_as_any_other(box: Box) -> None:
    box.submit("--gpus", "4", "--", "sleep", "60")
    with corral(box, *SHELL) as screen:
        screen.until(b" waits")
        screen.press(b"\x03")
        assert screen.to_the_end() == 130


def test_a_terminal_is_for_those_who_sit_at_one(box: Box) -> None:
    done = box.run("run", "--pty", "--", "true")
    assert (done.returncode, "--pty needs a terminal" in done.stderr) == (2, True)


def test_what_a_program_writes_last_is_shown(box: Box) -> None:
    with corral(box, "run", "--pty", "--", "sh", "-c", "seq 30000; echo last words") as screen:
        assert screen.to_the_end() == 0
    assert re.search(rb"\b30000\r?\r\nlast words\r?\r\n$", screen.shown)


def test_no_process_of_a_session_outlives_it(box: Box) -> None:
    with corral(box, *SHELL) as screen:
        screen.after(b"bash-")
        screen.press(b"setsid sleep 600 & echo pid${none}=$!.\r")
        screen.after(b"pid=")
        screen.until(b".\r\n")
        pid = int(screen.shown.split(b".")[0])
        screen.press(b"exit\r")
        assert screen.to_the_end() == 0
    box.until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_another_program_may_talk_to_the_terminal_through_the_api(box: Box) -> None:
    job = box.api(
        "/api/v1/jobs", {"command": ["cat"], "terminal": {"rows": 5, "columns": 5}, "env": {"PATH": "/bin:/usr/bin"}}
    )["id"]
    box.until_phase(job, "RUNNING")
    assert box.api(f"/api/v1/jobs/{job}/input", {"a": 1}) == {"offset": 7 + 1, "state": "open"}
    box.until(lambda: '{"a": 1}' in box.ok("logs", job))
