"""What a person at a terminal sees: colour, one line that changes in place, Ctrl-C."""

import signal
import termios
from collections.abc import Callable

import pytest

from tests.e2e.box import Box, described, until_there
from tests.e2e.terminal import corral


def test_a_terminal_gets_colour_unless_it_wants_none(box: Box) -> None:
    with corral(box, "status") as screen:
        assert screen.to_the_end() == 0
        assert b"\033[32mfree" in screen.shown
    with corral(box, "status", NO_COLOR="1") as screen:
        assert screen.to_the_end() == 0
        assert b"\033" not in screen.shown


def test_the_reason_is_shown_in_place_and_gone_when_output_comes(box: Box) -> None:
    holder = box.submit("--gpus", "4", "--", "sleep", "60")
    with corral(box, "run", "--gpus", "2", "--", "echo", "ran") as screen:
        screen.until(b"needs 2 GPUs")
        box.ok("cancel", holder)
        assert screen.to_the_end() == 0
    assert screen.shown.replace(b"\r\n", b"\n").endswith(b"\r\033[2Kran\n")
    assert max(map(len, screen.shown.decode().replace("\033[2K", "").replace("\r", "\n").splitlines())) <= 80


def test_after_control_c_the_reason_is_not_told_again(box: Box) -> None:
    box.submit("--gpus", "4", "--", "sleep", "60")
    with corral(box, "run", "--gpus", "2", "--", "true") as screen:
        screen.until(b" waits")
        screen.press(b"\x03")
        assert screen.to_the_end() == 130
    assert b"waits" not in screen.shown.partition(b"cancelling job")[2]


def test_a_reason_is_wrapped_for_a_person_and_whole_for_a_pipe(box: Box) -> None:
    box.submit("--gpus", "4", "--time", "1h", "--", "sleep", "60")
    waiting = box.submit("--gpus", "2", "--", "true")
    box.until(lambda: "needs 2 GPUs" in box.ok("why", waiting))
    with corral(box, "why", waiting) as screen:
        assert screen.to_the_end() == 0
    assert max(map(len, screen.shown.decode().splitlines())) <= 80
    assert len(box.ok("why", waiting).splitlines()[0]) > 100


def test_control_c_interrupts_the_job_and_the_shell_learns_of_it(box: Box) -> None:
    with corral(box, "run", "--", "sh", "-c", "echo up; exec sleep 60") as screen:
        screen.until(b"up\r\n")
        screen.press(b"\x03")
        assert screen.to_the_end() == 130
    assert b"sent SIGINT to job" in screen.shown


def test_json_is_laid_out_for_a_person(box: Box) -> None:
    with corral(box, "status", "--json") as screen:
        assert screen.to_the_end() == 0
    assert screen.shown.startswith(b"[\r\n  {\r\n")


def test_the_demonstration_redraws_one_table(box: Box) -> None:
    with corral(box, "demo", COLUMNS="80", LINES="40") as screen:
        assert screen.to_the_end() == 0
    assert b"SUCCEEDED" in screen.shown
    assert b"\033[2K" in screen.shown
    assert b"what to type next" in screen.shown


def test_a_live_view_fits_the_terminal_follows_its_size_and_leaves_it_as_it_was(box: Box) -> None:
    with corral(box, "status", "--watch", COLUMNS="", LINES="") as screen:
        screen.until(b"\033[?1049h")
        screen.resize(4, 60)
        screen.until(b"more lines")
        screen.press(b"\003")
        assert screen.to_the_end() == 0
    # The usual screen and its cursor are back.
    assert screen.shown.rfind(b"\033[?1049l") > screen.shown.rfind(b"\033[?1049h")
    assert screen.shown.rfind(b"\033[?25h") > screen.shown.rfind(b"\033[?25l")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_live_view_leaves_the_terminal_as_it_was_whatever_ends_it(box: Box, number: signal.Signals) -> None:
    with corral(box, "status", "--watch") as screen:
        screen.until(b"GPUs free")
        screen.process.send_signal(number)
        assert screen.to_the_end() == 128 + number
    assert screen.shown.rfind(b"\033[?1049l") > screen.shown.rfind(b"\033[?1049h")


@pytest.mark.parametrize("view", ["status", "ps"])
def test_q_leaves_a_live_view_and_the_terminal_echoes_keys_as_before(box: Box, view: str) -> None:
    with corral(box, view, "--watch") as screen:
        screen.until(b"\033[?1049h")
        screen.until(b"GPU" if view == "status" else b"jobs")
        assert not screen.modes()[3] & termios.ECHO
        screen.press(b"x\033[Aq")
        assert screen.to_the_end() == 0
        assert screen.modes()[3] & termios.ECHO
        assert screen.modes()[3] & termios.ICANON
    assert screen.shown.rfind(b"\033[?1049l") > screen.shown.rfind(b"\033[?1049h")


def test_a_live_table_of_jobs_follows_them(box: Box) -> None:
    with corral(box, "ps", "--watch", "--name", "followed") as screen:
        screen.until(b"no jobs")
        job = box.submit("--name", "followed", "--gpus", "0", "--", "sleep", "60")
        screen.until(b"1 RUNNING")
        box.ok("cancel", job)
        screen.shown = b""
        screen.until(b"no jobs")
        screen.press(b"\003")
        assert screen.to_the_end() == 0


def test_a_live_view_outlives_its_server_and_says_how_old_it_is(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    box.up()
    with corral(box, "status", "--watch") as screen:
        screen.until(b"1 of 1 GPUs free")
        box.down()
        screen.until(b"as of ")
        box.up()
        screen.shown = b""
        screen.until(b"1 of 1 GPUs free")
        screen.process.terminate()
        screen.to_the_end()
    assert screen.shown.rfind(b"\033[?1049l") > screen.shown.rfind(b"\033[?1049h")


def test_waiting_shows_how_many_jobs_have_ended(box: Box) -> None:
    gate = box.home / "gate"
    array = box.submit(
        "--array", "0-2", "--gpus", "0", "--", "sh", "-c", f"[ $CORRAL_ARRAY_INDEX = 0 ] || {until_there(gate)}"
    )
    with corral(box, "wait", array) as screen:
        screen.until(b"1 of 3 ended, 2 run, 0 wait")
        gate.touch()
        assert screen.to_the_end() == 0
    assert screen.shown.endswith(b"\r\033[2K")


def test_a_live_view_needs_a_terminal(box: Box) -> None:
    refused = box.run("status", "--watch")
    assert refused.returncode == 2
    assert "--watch needs a terminal" in refused.stderr


def test_a_simulation_shows_how_far_it_is_and_leaves_no_trace_of_that(box: Box) -> None:
    with corral(box, "simulate", "faults", "--jobs", "40", "--json", "/dev/null") as screen:
        assert screen.to_the_end() == 0
    assert b" of 40 jobs" in screen.shown
    assert screen.shown.endswith(b"\r\033[2K")
