"""`corral top` at a real terminal, over a server that is killed; and one frame of it in a pipe."""

from collections.abc import Callable
from pathlib import Path

from tests.client_only import client_only_environ
from tests.e2e.box import Box, described
from tests.e2e.terminal import corral


def test_a_terminal_has_it_over_a_killed_server_and_is_as_before_afterwards(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    box.up()
    with corral(box, "top") as screen:
        before = screen.modes()
        screen.resize(24, 80)
        screen.until(b"1 of 1 GPUs free")
        box.kill()
        screen.until(b"trying again")
        box.up()
        box.submit("--gpus", "1", "--name", "comes-later", "--", "sleep", "1000")
        screen.until(b"comes-later")
        screen.press(b"q")
        assert screen.to_the_end() == 0
        assert screen.modes() == before
    frame = box.ok("top", "--once", COLUMNS="80").splitlines()
    assert "0 of 1 GPUs free  1 run, 0 wait" in frame[0]
    assert any("comes-later" in line and "RUNNING" in line for line in frame)
    assert all(len(line) <= 80 for line in frame)


def test_without_textual_it_says_what_to_install(box: Box, tmp_path: Path) -> None:
    environ = client_only_environ(tmp_path)
    with corral(box, "top", **environ) as screen:
        screen.until(b"needs the package textual")
        screen.until(b"install")
        assert screen.to_the_end() == 1
    assert "4 of 4 GPUs free" in box.ok("top", "--once", **environ)


def test_a_terminal_whose_cursor_cannot_be_moved_is_left_alone(box: Box) -> None:
    with corral(box, "top", TERM="dumb") as screen:
        screen.until(b"corral top --once")
        assert screen.to_the_end() == 2


def test_without_a_terminal_or_a_server_it_says_what_to_do(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    refused = box.run("top")
    assert (refused.returncode, "corral top --once" in refused.stderr) == (2, True)
    away = box.run("top", "--once")
    assert (away.returncode, "corral up" in away.stderr) == (1, True)
